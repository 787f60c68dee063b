package advance_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
)

func costing(d sluice.Demand, tokens int64) sluice.Demand {
	d.Cost = sluice.Tokens(tokens)
	return d
}

// TestHeldIsNotUsed: seven nodes hold a tenth each after a request each, and
// what is shown as used is seven requests at the most.
func TestHeldIsNotUsed(t *testing.T) {
	for _, limit := range []string{"100000/day", "100000/day UTC", "100000/day fixed"} {
		synctest.Test(t, func(t *testing.T) {
			store, nodes := cluster(t, 7)
			for _, n := range nodes {
				d := take(t, sluice.New(n), demand("a", limit))
				r := d.Results[0]
				if d.Source != sluice.FromHeld || r.Remaining.Thousandths() < 99_993*sluice.Token || r.Remaining.Thousandths() > 99_999*sluice.Token || r.ResetAfter <= 0 {
					t.Errorf("%s: %+v", limit, r)
				}
			}
			page, err := store.List(context.Background(), sluice.Query{})
			if err != nil {
				t.Fatal(err)
			}
			if b := page.Buckets[0]; b.Remaining.Thousandths() < 99_993*sluice.Token || b.Held.Thousandths() == 0 || b.Utilization() > 0.01 {
				t.Errorf("%s: %+v is %v %% used", limit, b, b.Utilization())
			}
		})
	}
}

// TestRemainingIsTrue: while a node spends what it holds, what it shows is what
// there is: never above the capacity, and never more than a call behind.
func TestRemainingIsTrue(t *testing.T) {
	for _, limit := range []string{"200/minute", "200/minute fixed", "10/s burst 200"} {
		onNode(t, func(t *testing.T, inner *counting, l *sluice.Limiter) {
			d := demand("a", limit)
			for i := range 400 {
				got := take(t, l, d)
				var truth sluice.Decision
				peek := sluice.Take{Demands: []sluice.Demand{d}, Peek: true}
				if err := inner.Store.Take(context.Background(), &peek, &truth); err != nil {
					t.Fatal(err)
				}
				shown, store := got.Results[0], truth.Results[0]
				if shown.Remaining.Thousandths() > d.Limit.Capacity().Thousandths() || shown.Remaining.Thousandths() > store.Remaining.Thousandths() || shown.Unknown {
					t.Fatalf("%s: take %d shows %s left, the store has %s", limit, i, shown.Remaining, store.Remaining)
				}
				// The store does not know what was spent of what is held.
				if least := store.Free.Thousandths(); shown.Remaining.Thousandths() < least-sluice.Token {
					t.Fatalf("%s: take %d shows %s left, the store has %s free", limit, i, shown.Remaining, sluice.Thousandths(least))
				}
				time.Sleep(17 * time.Millisecond)
			}
		})
	}
}

// TestDenyCacheTellsCostsApart: a refusal tells of another cost what is true
// of that: never, if it is more than the limit can give, and later, if it is
// more than was refused.
func TestDenyCacheTellsCostsApart(t *testing.T) {
	onNode(t, func(t *testing.T, _ *counting, l *sluice.Limiter) {
		d := demand("a", "1000/minute")
		take(t, l, costing(d, 390))
		first := take(t, l, costing(d, 700))
		if first.Allowed || first.RetryAfter != 5400*time.Millisecond {
			t.Fatalf("%+v", first)
		}
		for cost, want := range map[int64]time.Duration{700: first.RetryAfter, 900: 17400 * time.Millisecond, 1000: 23400 * time.Millisecond, 5000: sluice.Never} {
			got := take(t, l, costing(d, cost))
			if got.Allowed || got.RetryAfter != want || (got.Source == sluice.FromDenyCache) != (cost <= 1000) {
				t.Errorf("%d: retry in %s by %s, want %s", cost, got.RetryAfter, got.Source, want)
			}
		}
		if got := take(t, l, costing(d, 600)); !got.Allowed {
			t.Errorf("a smaller cost is refused: %+v", got)
		}
	})
}

// TestOthersAreKnownBesideARefusal: a remembered refusal answers for a take only
// when it is known what is left of its other limits.
func TestOthersAreKnownBesideARefusal(t *testing.T) {
	onNode(t, func(t *testing.T, _ *counting, l *sluice.Limiter) {
		small, other := demand("small", "2/minute"), demand("other", "3/minute")
		take(t, l, costing(small, 2))
		take(t, l, small)
		for _, by := range []sluice.Source{sluice.FromStore, sluice.FromDenyCache} {
			if d := take(t, l, small, other); d.Source != by || d.Results[1].Unknown || d.Results[1].Remaining.Whole() != 3 {
				t.Errorf("%+v, want an answer by %s", d, by)
			}
		}
		take(t, l, other)
		if d := take(t, l, small, other); d.Results[1].Remaining.Whole() != 2 {
			t.Errorf("what is known is not shown: %+v", d.Results[1])
		}
	})
}

// TestWhoeverIsAskedSaysTheSame: what this node has spent and not reported is
// used, in takes, peeks and lists; its own adjustments and resets show at once.
func TestWhoeverIsAskedSaysTheSame(t *testing.T) {
	onNode(t, func(t *testing.T, _ *counting, l *sluice.Limiter) {
		d, ctx := demand("a", "1000/day fixed"), context.Background()
		left := func(what string, want int64) {
			t.Helper()
			peek, err := l.Peek(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			page, err := l.List(ctx, sluice.Query{})
			if err != nil {
				t.Fatal(err)
			}
			if n := peek.Results[0].Remaining.Whole(); n != want || want < 1000 && page.Buckets[0].Remaining.Whole() != want {
				t.Errorf("%s: a peek says %d, the list %+v, want %d", what, n, page.Buckets, want)
			}
		}
		for range 50 {
			take(t, l, d)
		}
		left("after 50 takes", 950)
		if _, err := l.Adjust(ctx, costing(d, 300)); err != nil {
			t.Fatal(err)
		}
		left("after an adjustment", 650)
		if r := take(t, l, d).Results[0]; r.Remaining.Whole() != 649 {
			t.Errorf("a take after an adjustment says %s", r.Remaining)
		}
		if err := l.Reset(ctx, d.Key); err != nil {
			t.Fatal(err)
		}
		if r := take(t, l, d).Results[0]; r.Remaining.Whole() < 900 {
			t.Errorf("a take after a reset says %s", r.Remaining)
		}
	})
}

// TestWaitsOfCenturies: a wait that is longer than a Duration is cut, not
// turned around.
func TestWaitsOfCenturies(t *testing.T) {
	onNode(t, func(t *testing.T, _ *counting, l *sluice.Limiter) {
		d := demand("a", "1/day burst 1000000")
		for range 10 {
			if r := take(t, l, costing(d, 90_000)).Results[0]; r.ResetAfter < 0 || r.RetryAfter < 0 {
				t.Fatalf("%+v", r)
			}
		}
		take(t, l, costing(d, 900_000))
		if got := take(t, l, costing(d, 950_000)); got.Allowed || got.RetryAfter < 1000*time.Hour {
			t.Errorf("told %s", got.RetryAfter)
		}
	})
}

// TestFullAgainWhenWhatIsUsedIs: what is held is not used, so nobody waits for
// it; and a window in which only tokens in hand were spent ends all the same.
func TestFullAgainWhenWhatIsUsedIs(t *testing.T) {
	for limit, want := range map[string]time.Duration{"1000/hour": 3600 * time.Millisecond, "1000/day fixed": 24 * time.Hour} {
		onNode(t, func(t *testing.T, _ *counting, l *sluice.Limiter) {
			d, ctx := demand("a", limit), context.Background()
			told := map[string]time.Duration{"a take in hand": take(t, l, d).Results[0].ResetAfter}
			peek, err := l.Peek(ctx, d)
			if err != nil {
				t.Fatal(err)
			}
			told["a peek"] = peek.Results[0].ResetAfter
			page, err := l.List(ctx, sluice.Query{})
			if err != nil || len(page.Buckets) != 1 || page.Buckets[0].Held.Thousandths() != 99*sluice.Token {
				t.Fatalf("%+v, %v", page.Buckets, err)
			}
			told["a list"] = page.Buckets[0].Reset
			for what, reset := range told {
				if reset != want {
					t.Errorf("%s: %s says it is full in %s, want %s", limit, what, reset, want)
				}
			}
		})
	}
}

// What a node has spent of what it holds comes back with a refund, and is
// forgiven by a reset, though the store had not heard of it.
func TestRefundAndResetOfWhatWasHeld(t *testing.T) {
	for _, limit := range []string{"1000/day", "1000/day UTC", "1000/day fixed"} {
		onNode(t, func(t *testing.T, inner *counting, l *sluice.Limiter) {
			d := costing(demand("a", limit), 50)
			left := func() int64 {
				t.Helper()
				time.Sleep(20 * time.Second) // until everything is returned
				got, err := l.Peek(t.Context(), d)
				if err != nil {
					t.Fatal(err)
				}
				return got.Results[0].Remaining.Thousandths()
			}
			if got := take(t, l, d); got.Source != sluice.FromHeld {
				t.Fatalf("%s: %+v", limit, got)
			}
			got, err := l.Adjust(t.Context(), costing(d, -50))
			if err != nil || got.Results[0].Returned.Thousandths() != 50*sluice.Token {
				t.Errorf("%s: refunded: %+v, %v", limit, got, err)
			}
			if n := left(); n != 1000*sluice.Token {
				t.Errorf("%s: %s are left after the refund", limit, sluice.Thousandths(n))
			}
			take(t, l, d)
			if err := l.Reset(t.Context(), d.Key); err != nil {
				t.Fatal(err)
			}
			if n := left(); n != 1000*sluice.Token {
				t.Errorf("%s: %s are left after the reset", limit, sluice.Thousandths(n))
			}
		})
	}
}
