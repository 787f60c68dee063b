package schedule

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/badinput"
)

const (
	// prepareAtMost is how many windows are prepared at a time in one place,
	// and prepareTogether about how many in all.
	prepareAtMost   = 4096
	prepareTogether = 4096

	// contendedTries is how often a search is repeated in which everything
	// with room was in use by others, with a pause that doubles.
	contendedTries = 10
)

var contendedPauses = backoff.Pauses{First: 3 * time.Millisecond, Max: 300 * time.Millisecond}

// Assign gives an event its slot: in the first window, from the requested
// time on, that has room and that nobody else is filling at this moment. An
// event that has a slot keeps it; if that is in another plan the answer is
// [ErrConflict]. If there is no room within the plan's headroom, or until
// r.NotAfter, it is an [*ExhaustedError].
func (s *Scheduler) Assign(ctx context.Context, r Request) (Slot, error) {
	if err := r.normalize(); err != nil {
		return Slot{}, err
	}
	began := time.Now()
	w := waiter{ctx: ctx, request: &r}
	_, err := s.queue.Do(ctx, "", &w) // if ctx ends first it may be assigned all the same
	s.stats.took(time.Since(began))
	if err != nil {
		return Slot{}, err
	}
	return w.slot, nil
}

func (s *Scheduler) assign(ctx context.Context, r *Request) (Slot, error) {
	var now int64 // the same for all tries, or windows that are prepared are over before they are searched
	for tries := 0; ; {
		p, err := s.plans.get(ctx, r.Plan)
		if err != nil {
			return Slot{}, err
		}
		if now == 0 {
			now = s.clock.now().UnixMicro()
		}
		search, first, err := s.search(p, r, now)
		if err != nil {
			return Slot{}, err
		}
		all, err := s.store.Assign(ctx, []Search{search})
		switch {
		case isStale(err):
			s.plans.drop(p)
			continue
		case err != nil:
			return Slot{}, err
		}
		found := all[0]
		p.learn(search.From, &found)
		s.skipped(p, &found)
		if again, err := s.purge(ctx, &found); err != nil {
			return Slot{}, err
		} else if again {
			continue
		}
		switch found.Status {
		case Assigned:
			s.stats.depths.add(float64(p.grid.distance(first, found.Slot.Window.UnixMicro())))
			return found.Slot, nil
		case Existed:
			return found.Slot, nil
		case Elsewhere:
			return Slot{}, elsewhere(r, &found)
		case Unprepared:
			if err := s.prepare(ctx, p, []gap{{search.From, found.At}}, 1); err != nil {
				return Slot{}, err
			}
		case Nothing:
			if len(found.Contended) == 0 || tries == contendedTries {
				return Slot{}, s.exhausted(r, found.Depth+p.grid.distance(first, search.From))
			}
			tries++
			if !contendedPauses.Wait(ctx, tries) {
				return Slot{}, ctx.Err()
			}
		}
	}
}

// purge removes a slot that reconciliation has reclaimed, if a search found
// that its event has one. It reports whether to search again.
func (s *Scheduler) purge(ctx context.Context, f *Found) (again bool, err error) {
	if f.Slot.State != Leaked {
		return false, nil
	}
	if _, err = s.store.Change(ctx, s.change(f.Slot.Event, Purged, Change{Detail: "assigned again"})); gone(err) {
		err = nil
	}
	return err == nil, err
}

// search is the search for what r asks, and the first window that suits it.
func (s *Scheduler) search(p *cachedPlan, r *Request, now int64) (search Search, first int64, err error) {
	requested := now
	if !r.At.IsZero() {
		requested = ceilMicro(r.At)
	}
	end := forever
	if !r.NotAfter.IsZero() {
		end = r.NotAfter.UnixMicro() + 1
	}
	w, from, until, earliest, share, err := p.search(max(requested, now), end)
	return Search{
		Namespace: s.namespace, Event: r.Event, Plan: p.ID, PlanName: p.Plan.Name, Version: p.Plan.Version, Max: p.Plan.MaxPerWindow,
		From: from, Until: until, Earliest: earliest, Jitter: rand.Float64() * share,
		Requested: requested, Now: now, Payload: r.Payload,
	}, w.Start, err
}

// gap is a place where windows are not prepared, met by a search.
type gap struct{ from, at int64 }

// few is how many windows to prepare where a search begins: more each time, as
// where one search was, others will be.
func (p *cachedPlan) few() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepared = min(p.prepared+1, 6)
	return 1 << p.prepared
}

// prepare has the store prepare windows at gaps, for so many events: few where
// a search begins, and more the further it has come, as it will go on.
func (s *Scheduler) prepare(ctx context.Context, p *cachedPlan, gaps []gap, events int) error {
	slices.SortFunc(gaps, func(a, b gap) int { return cmp.Compare(a.at, b.at) })
	few := min(p.few(), max(prepareTogether/len(gaps), 1))
	var stretches []Stretch
	covered := int64(math.MinInt64)
	for i := 0; i < len(gaps); i++ {
		g := gaps[i]
		if g.at < covered {
			continue
		}
		wanted := 1 // of the events, those that are at this gap
		for i+wanted < len(gaps) && gaps[i+wanted].at == g.at {
			wanted++
		}
		if len(gaps) == 1 {
			wanted = events
		}
		n := few + wanted/p.Plan.MaxPerWindow + p.grid.distance(g.from, g.at)
		windows, next := p.grid.windows(g.at, min(n, prepareAtMost))
		if len(windows) == 0 {
			return badinput.Field("at", time.UnixMicro(g.at).UTC(), "the calendar of plan "+p.Plan.Name+" opens at no time in the year after it")
		}
		stretches = append(stretches, Stretch{Plan: p.ID, Version: p.Plan.Version, From: g.at, To: next, Windows: windows})
		covered = next
	}
	err := s.store.Prepare(ctx, stretches)
	if isStale(err) {
		s.plans.drop(p)
		return nil
	}
	return err
}

// skipped counts and logs windows that were in use.
func (s *Scheduler) skipped(p *cachedPlan, f *Found) {
	if len(f.Contended) == 0 {
		return
	}
	s.stats.contention.Add(int64(len(f.Contended)))
	if more, ok := s.contended.pass(); ok {
		s.log.Warn(fmt.Sprintf("Window contention on %s, skipping to next", time.UnixMicro(f.Contended[0]).UTC().Format(time.RFC3339Nano)),
			"plan", p.Plan.Name, "windows", len(f.Contended), "notLogged", more)
	}
}

func (s *Scheduler) exhausted(r *Request, depth int) error {
	s.stats.failures.Add(1)
	s.log.Error(fmt.Sprintf("Lookahead exhausted for event %s, searched %d windows", r.Event, depth), "plan", r.Plan)
	return &ExhaustedError{Event: r.Event, Plan: r.Plan, Depth: depth, NotAfter: r.NotAfter}
}

func elsewhere(r *Request, f *Found) error {
	return fmt.Errorf("event %q has a slot in plan %s, not %s: %w", r.Event, f.Slot.Plan, r.Plan, ErrConflict)
}
