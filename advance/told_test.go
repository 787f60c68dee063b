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
