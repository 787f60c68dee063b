package schedule

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
)

// AssignBatch gives slots to up to [MaxBatch] events, as [Scheduler.Assign]
// does for each, in as few transactions as it can. There is a result for each
// request: some may have succeeded when others have not. The error is for
// what concerns all of them; then no result counts, and the batch can be sent
// again as it is.
func (s *Scheduler) AssignBatch(ctx context.Context, requests []Request) ([]Result, error) {
	if len(requests) == 0 || len(requests) > MaxBatch {
		return nil, badinput.Field("requests", len(requests), fmt.Sprintf("must be 1 to %d", MaxBatch))
	}
	began := time.Now()
	results, err := s.assignBatch(ctx, requests)
	s.stats.took(time.Since(began))
	return results, err
}

func (s *Scheduler) assignBatch(ctx context.Context, requests []Request) ([]Result, error) {
	results := make([]Result, len(requests))
	type name struct{ plan, event string }
	first := make(map[name]int, len(requests))
	byPlan := map[string][]int{}
	var plans []string // as they come, so that the first of two wins an event
	var repeated []int
	for i := range requests {
		r := requests[i]
		if err := r.normalize(); err != nil {
			results[i].Err = err
			continue
		}
		if _, ok := first[name{r.Plan, r.Event}]; ok {
			repeated = append(repeated, i)
			continue
		}
		first[name{r.Plan, r.Event}] = i
		if byPlan[r.Plan] == nil {
			plans = append(plans, r.Plan)
		}
		byPlan[r.Plan] = append(byPlan[r.Plan], i)
	}
	for _, plan := range plans {
		b := batch{s: s, plan: plan, requests: requests, results: results}
		if err := b.run(ctx, byPlan[plan]); err != nil {
			return nil, err
		}
	}
	for _, i := range repeated {
		r := requests[i]
		if r.Plan == "" {
			r.Plan = DefaultPlan
		}
		results[i] = results[first[name{r.Plan, r.Event}]]
		results[i].Slot.Existing = true
	}
	return results, nil
}

// batch is the events of one plan in a batch.
type batch struct {
	s        *Scheduler
	plan     string
	requests []Request
	results  []Result
	now      int64 // the same for all tries; see Scheduler.assign
}

// want is one event that has no slot yet.
type want struct {
	Search
	index int
	first int64
}

// run assigns those of the requests that are members.
func (b *batch) run(ctx context.Context, members []int) error {
	for tries := 0; len(members) > 0; {
		p, err := b.s.plans.get(ctx, b.plan)
		if err != nil {
			if len(members) == len(b.requests) {
				return err
			}
			b.fail(members, err)
			return nil
		}
		if b.now == 0 {
			b.now = b.s.clock.now().UnixMicro()
		}
		wants := b.wants(p, members)
		searches := make([]Search, len(wants))
		for i := range wants {
			searches[i] = wants[i].Search
		}
		if len(searches) == 0 {
			return nil
		}
		found, err := b.s.store.Assign(ctx, searches)
		switch {
		case isStale(err):
			b.s.plans.drop(p)
			continue
		case err != nil:
			return err
		}
		left, progress, err := b.collect(ctx, p, wants, found)
		if err != nil {
			return err
		}
		if len(left) > 0 && !progress {
			if tries == contendedTries {
				break
			}
			tries++
			if !contendedPauses.Wait(ctx, tries) {
				return ctx.Err()
			}
		}
		members = left
	}
	return nil
}

func (b *batch) fail(members []int, err error) {
	for _, i := range members {
		b.results[i].Err = err
	}
}

// wants are the searches for the members, in order of where they begin and end,
// then of their events.
func (b *batch) wants(p *cachedPlan, members []int) []want {
	wants := make([]want, 0, len(members))
	for _, i := range members {
		r := b.requests[i]
		r.Plan = b.plan
		search, first, err := b.s.search(p, &r, b.now)
		if err != nil {
			b.results[i].Err = err
			continue
		}
		wants = append(wants, want{search, i, first})
	}
	slices.SortFunc(wants, func(x, y want) int {
		return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.Until, y.Until), cmp.Compare(x.Event, y.Event))
	})
	return wants
}

// collect takes the results, and answers which events still have none, and
// whether it is worth while to go on with them at once.
func (b *batch) collect(ctx context.Context, p *cachedPlan, wants []want, found []Found) (left []int, progress bool, err error) {
	var gaps []gap
	for i := range found {
		w, f := &wants[i], &found[i]
		p.learn(w.From, f)
		if i == 0 {
			b.s.skipped(p, f) // told with the first, for all
		}
		result := &b.results[w.index]
		if again, err := b.s.purge(ctx, f); err != nil {
			return nil, false, err
		} else if again {
			left, progress = append(left, w.index), true
			continue
		}
		switch f.Status {
		case Assigned:
			b.s.stats.depths.add(float64(p.grid.distance(w.first, f.Slot.Window.UnixMicro())))
			result.Slot, progress = f.Slot, true
			continue
		case Existed:
			result.Slot, progress = f.Slot, true
			continue
		case Elsewhere:
			result.Err, progress = elsewhere(&Request{Event: w.Event, Plan: b.plan}, f), true
			continue
		case Again:
			progress = true
		case Unprepared:
			gaps = append(gaps, gap{w.From, f.At})
		case Nothing:
			r := &Request{Event: w.Event, Plan: b.plan, NotAfter: b.requests[w.index].NotAfter}
			if len(f.Contended) == 0 {
				result.Err = b.s.exhausted(r, f.Depth+p.grid.distance(w.first, w.From))
				continue
			}
			// The last try's answer, should it be one.
			result.Err = &ExhaustedError{Event: w.Event, Plan: b.plan, Depth: f.Depth, NotAfter: r.NotAfter}
		}
		left = append(left, w.index)
	}
	if len(gaps) > 0 {
		progress = true
		err = b.s.prepare(ctx, p, gaps, len(gaps))
	}
	for _, i := range left {
		if progress {
			b.results[i].Err = nil
		}
	}
	return left, progress, err
}
