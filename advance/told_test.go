package advance_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/memory"
)

// holder is a limiter of a node that holds tokens of a memory store, seen
// through over.
func holder(t *testing.T, over func(sluice.Store) sluice.Store) *sluice.Limiter {
	store, err := memory.Open(memory.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	node, err := advance.New(over(store), advance.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(node.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return sluice.New(node)
}

// TestWhatTheStoreSaidCounts: takes that the store decides, such as leases,
// count in what the node says afterwards, too.
func TestWhatTheStoreSaidCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holder(t, func(s sluice.Store) sluice.Store { return s })
		take(t, l, demand("a", "500/day fixed"))
		synctest.Wait()
		if _, _, err := l.Acquire(t.Context(), sluice.Take{Demands: []sluice.Demand{costing(demand("a", "500/day fixed"), 100)}}); err != nil {
			t.Fatal(err)
		}
		got := take(t, l, demand("a", "500/day fixed"))
		if r := got.Results[0]; got.Source != sluice.FromHeld || r.Remaining.Thousandths() != 398*sluice.Token {
			t.Errorf("%s remain by %s, want 398 by held", r.Remaining, got.Source)
		}
	})
}

// lateGrants is a store whose grants come late: they were made before the
// answers that overtake them.
type lateGrants struct {
	sluice.Store
	trip time.Duration
}

func (s *lateGrants) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	err := s.Store.Hold(ctx, requests, grants)
	time.Sleep(s.trip)
	return err
}

// TestAnAnswerThatWasOvertaken: what the store said of a bucket before a take
// that it has decided since says nothing new.
func TestAnAnswerThatWasOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holder(t, func(s sluice.Store) sluice.Store { return &lateGrants{s, 4 * time.Millisecond} })
		go l.Take(t.Context(), demand("a", "500/day fixed")) //nolint:errcheck // asks for a hold
		time.Sleep(time.Millisecond)
		take(t, l, costing(demand("a", "500/day fixed"), 100)) // too much to be held
		time.Sleep(10 * time.Millisecond)
		got := take(t, l, demand("a", "500/day fixed"))
		if r := got.Results[0]; got.Source != sluice.FromHeld || r.Remaining.Thousandths() != 398*sluice.Token {
			t.Errorf("%s remain by %s, want 398 by held", r.Remaining, got.Source)
		}
	})
}

// TestOwnHoldsDoNotDelay: a caller that wants all of a bucket is told when
// refill has repaid it, not when what this node itself held of it expires.
func TestOwnHoldsDoNotDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holder(t, func(s sluice.Store) sluice.Store { return s })
		for d := (sluice.Decision{Allowed: true}); d.Allowed; {
			d, _ = l.Take(t.Context(), demand("a", "60/3s burst 50"))
			time.Sleep(time.Millisecond)
		}
		d, _ := l.Take(t.Context(), costing(demand("a", "60/3s burst 50"), 50))
		if d.Allowed || d.RetryAfter > 3*time.Second {
			t.Errorf("allowed %v, retry in %s", d.Allowed, d.RetryAfter)
		}
		time.Sleep(d.RetryAfter)
		if d, _ = l.Take(t.Context(), costing(demand("a", "60/3s burst 50"), 50)); !d.Allowed {
			t.Errorf("refused at the time told, retry in %s", d.RetryAfter)
		}
	})
}

// TestARememberedRefusalIsTheWholeAnswer: a take that a limit has just refused is
// also told of another limit that has it wait for longer, and whoever comes back
// at the time told passes.
func TestARememberedRefusalIsTheWholeAnswer(t *testing.T) {
	for _, other := range []string{"40/20s sliding", "40/20s fixed", "2/s burst 40", "39/20s"} {
		t.Run(other, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := holder(t, func(s sluice.Store) sluice.Store { return s })
				both := func(a, b int64) sluice.Decision {
					d, err := l.Take(t.Context(), costing(demand("a", "60/minute burst 5"), a), costing(demand("b", other), b))
					if err != nil {
						t.Fatal(err)
					}
					return d
				}
				both(5, 39)
				for range 3 {
					if d := both(1, 1); d.Allowed {
						t.Fatal("more than the burst passed")
					}
				}
				d := both(1, 5)
				if d.Allowed || d.Results[1].Fits {
					t.Errorf("what does not fit is told to: %+v", d.Results)
				}
				time.Sleep(d.RetryAfter)
				if again := both(1, 5); !again.Allowed {
					t.Errorf("refused after the %s told, by %s", d.RetryAfter, again.Source)
				}
			})
		})
	}
}

// TestRefusalsOfSeveralLimitsAreRemembered: the store is not asked for each take
// that one of its limits refuses.
func TestRefusalsOfSeveralLimitsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := cluster(t, 1)
		l := sluice.New(nodes[0])
		for range 1000 {
			if _, err := l.Take(t.Context(), costing(demand("a", "5/hour"), 1), costing(demand("b", "300/minute sliding"), 1)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if s := nodes[0].Stats(); s.Exact > 10 {
			t.Errorf("the store was asked %d times", s.Exact)
		}
	})
}

// TestAChangeOfTheLimitReturnsWhatIsHeld: under another limit nothing is used but
// what was taken.
func TestAChangeOfTheLimitReturnsWhatIsHeld(t *testing.T) {
	for _, limits := range [][]string{
		{"1000/day UTC", "1010/day UTC", "1020/day UTC", "900/day UTC"},
		{"1000/day", "2000/day", "1500/day"},
		{"1000/6h fixed", "2000/6h fixed"},
	} {
		t.Run(limits[0], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, nodes := cluster(t, 3)
				taken := int64(0)
				for _, limit := range limits {
					for i := range 30 {
						take(t, sluice.New(nodes[i%3]), demand("a", limit))
						taken++
						time.Sleep(10 * time.Millisecond)
					}
				}
				time.Sleep(13 * time.Second)
				last := demand("a", limits[len(limits)-1])
				d, err := sluice.New(store).Peek(t.Context(), last)
				if used := last.Limit.Capacity().Whole() - d.Results[0].Remaining.Whole(); err != nil || used > taken {
					t.Errorf("%d are used and %d were taken: %v", used, taken, err)
				}
			})
		})
	}
}

// TestARefusalDoesNotOutliveAGrant: what a node takes in hand after a refusal has
// whoever was refused wait for longer.
func TestARefusalDoesNotOutliveAGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holder(t, func(s sluice.Store) sluice.Store { return s })
		a := demand("a", "1000/minute")
		take(t, l, costing(a, 800))
		take(t, l, costing(a, 333))
		for range 40 {
			take(t, l, a)
			time.Sleep(time.Millisecond)
		}
		d := take(t, l, costing(a, 333))
		time.Sleep(d.RetryAfter)
		if again := take(t, l, costing(a, 333)); d.Allowed || !again.Allowed {
			t.Errorf("told %s by %s, and then %s more", d.RetryAfter, d.Source, again.RetryAfter)
		}
	})
}
