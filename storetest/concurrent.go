package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// concurrentChecks have many callers at once.
func concurrentChecks() []Check {
	return []Check{
		{"concurrent: exactly the burst passes", 0, func(tb testing.TB, open Open) error {
			return errors.Join(crowdBurst(tb, open, "10/hour"), crowdBurst(tb, open, "11/day UTC"))
		}},
		{"concurrent: exactly a sliding window passes", sluice.CanWindow, func(tb testing.TB, open Open) error {
			return crowdBurst(tb, open, "10/hour sliding")
		}},
		{"concurrent: token bucket within its bound in every interval", 0, func(tb testing.TB, open Open) error {
			return errors.Join(crowdBound(tb, open, "100/s burst 20"), crowdBound(tb, open, "7/3ms burst 5"))
		}},
		{"concurrent: fixed window within its bound in every window", 0, func(tb testing.TB, open Open) error {
			return crowdBound(tb, open, "20/100ms fixed")
		}},
		{"concurrent: sliding window within its bound in every window", sluice.CanWindow, func(tb testing.TB, open Open) error {
			return crowdBound(tb, open, "20/100ms sliding")
		}},
		{"concurrent: all or nothing", 0, crowdAllOrNothing},
		{"concurrent: what is always taken together stays together", 0, crowdTogether},
		{"concurrent: a request id takes once", sluice.CanLease, crowdOnce},
		{"concurrent: a lease is released once", sluice.CanLease, crowdRelease},
		{"concurrent: a lease ends one way", sluice.CanLease, crowdEnd},
		{"concurrent: never more in flight than there may be", sluice.CanLease, crowdHolders},
		{"concurrent: held and taken is never more than there is", sluice.CanHold, crowdHolds},
		{"concurrent: every answer is the model's, in some order", sluice.CanHold, crowdOrder},
	}
}

const workers = 8

// crowd has all workers work at once and answers their errors.
func crowd(work func(worker int) error) error { return crowdOf(workers, work) }

func crowdOf(n int, work func(worker int) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = work(i)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

// crowdBurst takes token by token while time stands still, from one bucket
// after the other. Each of the takes that pass must leave a different amount,
// or two of them saw the same state.
func crowdBurst(tb testing.TB, open Open, limit string) error {
	s := onStage(tb, open)
	for round := range 25 {
		demand := s.demand(fmt.Sprint("bucket ", round), limit, 1)
		var mu sync.Mutex
		left := map[int64]int{}
		err := crowd(func(int) error {
			for range 3 {
				d, err := s.take(demand)
				if err != nil {
					return err
				}
				if d.Allowed {
					mu.Lock()
					left[d.Results[0].Remaining.Thousandths()]++
					mu.Unlock()
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		full := int(demand.Limit.Capacity().Thousandths() / sluice.Token)
		for i := range full {
			if err := expect(fmt.Sprintf("%s: takes that left %d", limit, i), left[amount(float64(i))], 1); err != nil {
				return err
			}
		}
		if err := expect(limit+": different amounts left", len(left), full); err != nil {
			return err
		}
	}
	return nil
}

// crowdBound takes and refunds at random while time goes on, and has the
// history checked.
func crowdBound(tb testing.TB, open Open, limit string) error {
	s := onStage(tb, open)
	var histories [workers]History
	err := crowd(func(worker int) error {
		r, h := rand.New(rand.NewPCG(uint64(worker), 9)), &histories[worker]
		for i := range 150 {
			demand := s.demand("a", limit, 0.001*float64(1+r.IntN(3000)))
			call := s.clock.now().UnixMicro()
			var d sluice.Decision
			var err error
			switch {
			case i%10 == 9:
				demand.Cost = sluice.Thousandths(-demand.Cost.Thousandths())
				d, err = s.limiter.Adjust(s.tb.Context(), demand)
			case i%10 == 8:
				d, err = s.limiter.TakeUpTo(s.tb.Context(), demand)
			default:
				d, err = s.take(demand)
			}
			if err != nil {
				return err
			}
			h.Add(call, s.clock.now().UnixMicro(), d.Results[0].Consumed.Thousandths())
			s.clock.advance(time.Duration(r.IntN(500)) * time.Microsecond)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var all History
	for i := range histories {
		all.Events = append(all.Events, histories[i].Events...)
	}
	report, err := all.Report(sluice.MustParse(limit))
	if err != nil {
		return err
	}
	tb.Logf("%s: used %.0f %% of the bound; closest: %s", limit, 100*report.Used(), report.Worst)
	if err := report.Err(); err != nil {
		return fmt.Errorf("%s: %w", limit, err)
	}
	return nil
}

// crowdAllOrNothing takes from several buckets in several orders while time
// stands still. What is missing from each at the end must be what the answers
// say.
func crowdAllOrNothing(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	names := []string{"a", "b", "c", "d"}
	limits := map[string]string{"a": "60/hour", "b": "50/hour", "c": "10/hour", "d": "40/day UTC"}
	var taken [4]atomic.Int64
	err := crowd(func(worker int) error {
		r := rand.New(rand.NewPCG(uint64(worker), 11))
		for range 40 {
			order := r.Perm(len(names))[:2+r.IntN(2)]
			var demands []sluice.Demand
			for _, i := range order {
				demands = append(demands, s.demand(names[i], limits[names[i]], 1))
			}
			d, err := s.take(demands...)
			if err != nil {
				return err
			}
			for n, i := range order {
				want := int64(0)
				if d.Allowed {
					want = sluice.Token
				}
				if err := expect("consumed", d.Results[n].Consumed.Thousandths(), want); err != nil {
					return err
				}
				taken[i].Add(d.Results[n].Consumed.Thousandths())
			}
		}
		return nil
	})
	for i, name := range names {
		full := sluice.MustParse(limits[name]).Capacity().Thousandths()
		left := float64(full-taken[i].Load()) / float64(sluice.Token)
		err = errors.Join(err, s.left(s.demand(name, limits[name], 1), left))
	}
	return err
}

// crowdTogether takes the same from two buckets of the same limit, in either
// order, while time goes on.
func crowdTogether(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	return crowd(func(worker int) error {
		r := rand.New(rand.NewPCG(uint64(worker), 13))
		for range 60 {
			cost := 0.001 * float64(1+r.IntN(4000))
			demands := []sluice.Demand{s.demand("a", "100/s burst 20", cost), s.demand("b", "100/s burst 20", cost)}
			if worker%2 == 1 {
				demands[0], demands[1] = demands[1], demands[0]
			}
			d, err := s.take(demands...)
			if err != nil {
				return err
			}
			if d.Results[0] != d.Results[1] {
				return fmt.Errorf("not together: %s", tell(&d, nil))
			}
			s.clock.advance(time.Duration(r.IntN(2000)) * time.Microsecond)
		}
		return nil
	})
}

func crowdOnce(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	for round := range 12 {
		id := s.id(fmt.Sprint(round))
		var first atomic.Int64
		err := crowd(func(int) error {
			d, err := s.decide(sluice.Take{Demands: []sluice.Demand{s.demand("a", "100/hour", 1), s.demand("b", "50/hour", 1)}, ID: id})
			if err != nil {
				return err
			}
			if !d.Repeated {
				first.Add(1)
			}
			return errors.Join(
				expect("allowed", d.Allowed, true),
				expect("left", d.Results[0].Remaining.Thousandths(), amount(float64(99-round))),
				expect("left", d.Results[1].Remaining.Thousandths(), amount(float64(49-round))),
			)
		})
		if err = errors.Join(err, expect("takes that were the first", first.Load(), 1)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func crowdRelease(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	// Something else is used, so that a second refund has something to take.
	if _, err := s.take(s.demand("a", "100/hour", 50)); err != nil {
		return err
	}
	for round := range 12 {
		id := s.id(fmt.Sprint(round))
		_, err := s.decide(sluice.Take{Demands: []sluice.Demand{s.demand("a", "100/hour", 3)}, ID: id, Lease: true})
		if err != nil {
			return err
		}
		var refunded atomic.Int64
		err = crowd(func(int) error {
			d, err := s.limiter.Settle(s.tb.Context(), sluice.Settlement{ID: id, Action: sluice.Release})
			for i := range d.Results {
				refunded.Add(-d.Results[i].Consumed.Thousandths())
			}
			return err
		})
		err = errors.Join(err,
			expect("refunded by all together", refunded.Load(), amount(3)),
			s.left(s.demand("a", "100/hour", 1), 50))
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func crowdEnd(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	used := 0.0
	for round := range 12 {
		id := s.id(fmt.Sprint(round))
		_, err := s.decide(sluice.Take{Demands: []sluice.Demand{s.demand("a", "100/hour", 3)}, ID: id, Lease: true})
		if err != nil {
			return err
		}
		var ended [2]atomic.Int64 // committed, released
		err = crowd(func(worker int) error {
			way := worker % 2
			_, err := s.limiter.Settle(s.tb.Context(), sluice.Settlement{ID: id, Action: sluice.Commit + sluice.Action(way)})
			if err == nil {
				ended[way].Add(1)
			} else if errors.Is(err, sluice.ErrLeaseClosed) {
				err = nil
			}
			return err
		})
		committed, released := ended[0].Load(), ended[1].Load()
		if (committed == 0) == (released == 0) || committed+released != workers/2 {
			err = errors.Join(err, fmt.Errorf("%d commits and %d releases of %d each", committed, released, workers/2))
		}
		if committed > 0 {
			used += 3
		}
		if err = errors.Join(err, s.left(s.demand("a", "100/hour", 1), 100-used)); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func crowdHolders(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	limit := sluice.MustParse("3 concurrent")
	var flying, passed atomic.Int64
	err := crowd(func(worker int) error {
		for i := range 40 {
			id := s.id(fmt.Sprint(worker, "-", i))
			d, err := s.decide(sluice.Take{Demands: []sluice.Demand{{Key: s.key("c"), Limit: limit}}, ID: id, Lease: true, Keep: time.Hour})
			if err != nil {
				return err
			}
			if !d.Allowed {
				continue
			}
			passed.Add(1)
			if n := flying.Add(1); n > 3 {
				return fmt.Errorf("%d in flight", n)
			}
			for range 4 {
				runtime.Gosched() // others may try meanwhile
			}
			flying.Add(-1)
			settlement := sluice.Settlement{ID: id, Action: sluice.Commit + sluice.Action(i%2)}
			if _, err := s.limiter.Settle(s.tb.Context(), settlement); err != nil {
				return err
			}
		}
		return nil
	})
	if passed.Load() < 3 {
		err = errors.Join(err, fmt.Errorf("only %d passed", passed.Load()))
	}
	return errors.Join(err, s.left(sluice.Demand{Key: s.key("c"), Limit: limit}, 3))
}

// crowdHolds holds, takes and returns while time stands still, so that what
// is missing at the end is what was taken and what was spent.
func crowdHolds(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	demand := s.demand("a", "200/hour", 1)
	var out, most atomic.Int64 // taken, held and spent, as far as callers know
	err := crowd(func(worker int) error {
		r := rand.New(rand.NewPCG(uint64(worker), 15))
		for i := range 30 {
			id := sluice.HoldID{Node: uint64(worker + 1), Seq: uint64(i + 1)}
			grants := make([]sluice.Grant, 1)
			err := s.store.Hold(s.tb.Context(), []sluice.HoldRequest{{
				Key: demand.Key, Limit: demand.Limit, ID: id, Max: sluice.Thousandths(amount(float64(1 + r.IntN(20)))), TTL: time.Minute,
			}}, grants)
			if err != nil {
				return err
			}
			d, err := s.take(demand)
			if err != nil {
				return err
			}
			now := out.Add((grants[0].Amount.Thousandths() + d.Results[0].Consumed.Thousandths()))
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			// Before the store does, so that out is never more than it knows of.
			spent := grants[0].Amount.Thousandths() / 4
			out.Add(-(grants[0].Amount.Thousandths() - spent))
			for range 2 {
				err := s.store.Return(s.tb.Context(), []sluice.HoldReturn{{Key: demand.Key, Limit: demand.Limit, ID: id, Spent: sluice.Thousandths(spent)}})
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	if n := most.Load(); n > demand.Limit.Capacity().Thousandths() {
		err = errors.Join(err, fmt.Errorf("%s were out at once", sluice.Thousandths(n)))
	}
	left := float64(demand.Limit.Capacity().Thousandths()-out.Load()) / float64(sluice.Token)
	return errors.Join(err, s.left(demand, left))
}
