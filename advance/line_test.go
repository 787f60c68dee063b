package advance_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
)

// TestARefusalBehindTheLine: a take that does not wait, on a node where somebody
// stands in line, is told the time that the store would tell, though the node
// remembers a refusal from before. Whoever comes back then passes.
func TestARefusalBehindTheLine(t *testing.T) {
	for _, rule := range []string{"5/s burst 10", "5/s burst 50"} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := holder(t, func(s sluice.Store) sluice.Store { return s })
				all := demand("a", rule)
				all.Cost = all.Limit.Capacity()
				full := time.Duration(all.Cost.Thousandths()/sluice.Token) * time.Second / 5
				listening(t, l)
				take(t, l, all)
				ctx, giveUp := context.WithTimeout(t.Context(), 2*full)
				defer giveUp()
				go l.Wait(ctx, sluice.Take{Demands: []sluice.Demand{all}}) //nolint:errcheck // it is served
				time.Sleep(100 * time.Millisecond)
				for range 2 { // by the store, then by what is remembered of that
					d, err := l.Take(t.Context(), all)
					if want := 2*full - 100*time.Millisecond; err != nil || d.Allowed || d.RetryAfter < want-time.Millisecond || d.RetryAfter > want+25*time.Millisecond {
						t.Fatalf("allowed %v, %v, retry in %s by %s, want %s", d.Allowed, err, d.RetryAfter, d.Source, want)
					}
				}
				time.Sleep(2*full - 100*time.Millisecond + 25*time.Millisecond)
				if d := take(t, l, all); !d.Allowed {
					t.Errorf("refused at the time told, retry in %s by %s", d.RetryAfter, d.Source)
				}
			})
		})
	}
}

// listening makes l hear of room made by others, so that a refusal is forgotten
// only for a reason.
func listening(t *testing.T, l *sluice.Limiter) {
	ctx, giveUp := context.WithTimeout(t.Context(), time.Millisecond)
	defer giveUp()
	one := demand("listening", "1/s")
	take(t, l, one)
	l.Wait(ctx, sluice.Take{Demands: []sluice.Demand{one}}) //nolint:errcheck // it gives up
	synctest.Wait()
}

// lateTakes is a store whose answers to takes without a ticket come late.
type lateTakes struct {
	sluice.Store
	trip time.Duration
}

func (s *lateTakes) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	err := s.Store.Take(ctx, t, d)
	if t.Ticket.ID.Node == 0 {
		time.Sleep(s.trip)
	}
	return err
}

// TestARefusalThatTheLineOvertook: a refusal from before somebody stood in line
// that is heard after that is not remembered.
func TestARefusalThatTheLineOvertook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := &lateTakes{}
		l := holder(t, func(s sluice.Store) sluice.Store { late.Store = s; return late })
		all := costing(demand("a", "5/s burst 10"), 10)
		take(t, l, all)
		late.trip = 10 * time.Millisecond
		go l.Wait(t.Context(), sluice.Take{Demands: []sluice.Demand{all}}) //nolint:errcheck // it is served
		time.Sleep(5 * time.Millisecond)
		go l.Take(t.Context(), all) //nolint:errcheck // asked before, told after it stands in line
		time.Sleep(20 * time.Millisecond)
		if d := take(t, l, all); d.Allowed || d.RetryAfter < 3900*time.Millisecond {
			t.Errorf("allowed %v, retry in %s by %s, want 3.97s", d.Allowed, d.RetryAfter, d.Source)
		}
		time.Sleep(2 * time.Second)
	})
}

// TestUpToGrantsWhatIsInHand: a take up to an amount gets what its own node holds
// of the bucket, too.
func TestUpToGrantsWhatIsInHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := holder(t, func(s sluice.Store) sluice.Store { return s })
		take(t, l, demand("a", "100/hour"))
		synctest.Wait()
		if d, err := l.TakeUpTo(t.Context(), costing(demand("a", "100/hour"), 100)); err != nil || d.Granted != sluice.Tokens(99) {
			t.Errorf("%s granted, %v, want 99", d.Granted, err)
		}
	})
}
