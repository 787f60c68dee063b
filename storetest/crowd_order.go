package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// crowdOrder has takes of all kinds come at once: of buckets with and without
// holds, of windows, of several buckets and under changing limits. A store may
// decide them in any order, or many together, but there has to be an order in
// which the model gives each of them the answer it got.
func crowdOrder(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	model := NewModel(s.clock.now)
	limiter := sluice.New(model)
	r := rand.New(rand.NewPCG(1, 17))
	kinds := s.kindsOfTakes()
	var holds []sluice.HoldRequest
	for round := range 12 {
		s.clock.advance(time.Duration(r.IntN(1_500_000)) * time.Microsecond)
		holds = s.renewHolds(r, holds)
		if err := s.sameGrants(model, holds); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		takes, err := s.crowdTakes(kinds, uint64(round))
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if takes, err = inOrder(takes); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		for i := range takes {
			want, err := limiter.Take(tb.Context(), takes[i].demands...)
			if err != nil {
				return err
			}
			got := takes[i].decision
			if err := sameDecision(&got, &want); err != nil {
				return fmt.Errorf("round %d, take %d of %d in the order that the answers imply: %w\n got %s\nwant %s",
					round, i+1, len(takes), err, tell(&got, nil), tell(&want, nil))
			}
		}
	}
	return nil
}

// kindsOfTakes are what the takes of crowdOrder ask for. All are of one
// entity, as a take over several need not be decided in one step everywhere.
func (s *stage) kindsOfTakes() [][]sluice.Demand {
	const plain = "50/s burst 60"
	demand := func(name, limit string) sluice.Demand { return s.demand(name, limit, 1) }
	shadow := demand("plain", plain)
	shadow.Shadow = true
	kinds := [][]sluice.Demand{
		{demand("plain", plain)},
		{demand("held", plain)},
		{demand("held window", "60/s fixed")},
		{demand("plain", plain), demand("held", plain)},
		{demand("held", plain), demand("held window", "60/s fixed")},
		{demand("held", plain), demand("other", "100/s")},
		{demand("held", plain), shadow},
		{demand("changing", plain)},
		{demand("changing", "50/s burst 80")},
	}
	if s.store.Capabilities().Has(sluice.CanWindow) {
		kinds = append(kinds, []sluice.Demand{demand("sliding", "30/s sliding"), demand("held", plain)})
	}
	return kinds
}

// renewHolds are requests for holds that take the place of the last ones, part
// of which was spent. Some of those have expired.
func (s *stage) renewHolds(r *rand.Rand, last []sluice.HoldRequest) []sluice.HoldRequest {
	requests := []sluice.HoldRequest{
		{Key: s.key("held"), Limit: sluice.MustParse("50/s burst 60")},
		{Key: s.key("held window"), Limit: sluice.MustParse("60/s fixed")},
	}
	for i := range requests {
		q := &requests[i]
		q.ID, q.Max, q.TTL = sluice.HoldID{Node: uint64(i + 1), Seq: 1}, sluice.Tokens(20), time.Second
		if last != nil {
			q.Previous, q.ID.Seq = last[i].ID, last[i].ID.Seq+1
			q.Spent = sluice.Thousandths(int64(r.IntN(5000)))
		}
	}
	return requests
}

// sameGrants asks the store and the model for holds.
func (s *stage) sameGrants(model *Model, requests []sluice.HoldRequest) error {
	ask := func(store sluice.Store) *outcome {
		o := outcome{grants: make([]sluice.Grant, len(requests))}
		o.err = store.Hold(s.tb.Context(), requests, o.grants)
		return &o
	}
	return ask(s.store).differs(ask(model), s.clock)
}

// observed is a take with its answer, and when it was called and returned,
// counted in calls and returns.
type observed struct {
	demands        []sluice.Demand
	decision       sluice.Decision
	call, returned int64
}

// crowdTakes has many callers take at random while time stands still. They are
// more than in other checks, so that a store that decides takes together has
// some to put together.
func (s *stage) crowdTakes(kinds [][]sluice.Demand, seed uint64) ([]observed, error) {
	const callers, each = 32, 3
	var tick atomic.Int64
	all := make([]observed, callers*each)
	err := crowdOf(callers, func(caller int) error {
		r := rand.New(rand.NewPCG(uint64(caller), seed))
		for i := range each {
			o := &all[caller*each+i]
			o.demands = slices.Clone(kinds[r.IntN(len(kinds))])
			cost := int64(1 + r.IntN(4000))
			if r.IntN(10) == 0 {
				cost = 45 * sluice.Token // fits but for what is held
			}
			for d := range o.demands {
				o.demands[d].Cost = sluice.Thousandths(cost)
			}
			o.call = tick.Add(1)
			d, err := s.take(o.demands...)
			o.returned = tick.Add(1)
			if err != nil {
				return err
			}
			o.decision = d
			if err := expect("results", len(d.Results), len(o.demands)); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// used is what had been taken from the bucket after the take: since time
// stands still, the takes that consume something leave ever more.
func (o *observed) used(i int) int64 {
	return o.demands[i].Limit.Capacity().Thousandths() - o.decision.Results[i].Remaining.Thousandths()
}

var errNoOrder = errors.New("there is no order of the takes in which each bucket is used ever more")

// inOrder puts takes in the order in which they must have been decided: one
// that returned before another was called comes first, and in each bucket they
// come in the order of what was used. Takes that consumed nothing come after
// the one that left what they saw, and before the next.
func inOrder(takes []observed) ([]observed, error) {
	after := make([][]int, len(takes)) // those that come after each
	before := make([]int, len(takes))  // how many come before each
	edge := func(first, second int) {
		after[first] = append(after[first], second)
		before[second]++
	}
	type visit struct {
		take     int
		used     int64
		consumed bool
	}
	visits := map[sluice.Key][]visit{}
	for i := range takes {
		for j := range takes {
			if takes[i].returned < takes[j].call {
				edge(i, j)
			}
		}
		for d := range takes[i].demands {
			k := takes[i].demands[d].Key
			visits[k] = append(visits[k], visit{i, takes[i].used(d), takes[i].decision.Results[d].Consumed.Thousandths() != 0})
		}
	}
	for _, vs := range visits {
		slices.SortStableFunc(vs, func(a, b visit) int {
			switch {
			case a.used != b.used || a.consumed == b.consumed:
				return cmp.Compare(a.used, b.used)
			case a.consumed:
				return -1
			}
			return 1
		})
		last := -1 // that consumed something
		for i, v := range vs {
			if last >= 0 {
				edge(vs[last].take, v.take)
			}
			if v.consumed {
				for _, saw := range vs[last+1 : i] {
					edge(saw.take, v.take)
				}
				last = i
			}
		}
	}
	ordered := make([]observed, 0, len(takes))
	var ready []int
	for i := range takes {
		if before[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		ordered = append(ordered, takes[i])
		for _, j := range after[i] {
			if before[j]--; before[j] == 0 {
				ready = append(ready, j)
			}
		}
	}
	if len(ordered) < len(takes) {
		return nil, errNoOrder
	}
	return ordered, nil
}
