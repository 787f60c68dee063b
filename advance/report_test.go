package advance_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/memory"
)

// recovering is a store of which holds cannot be asked for a while, as failover
// has it; returns can.
type recovering struct {
	sluice.Store
	mu       sync.Mutex
	fails    func([]sluice.Grant) error // nil: it is asked
	returned []sluice.HoldReturn
}

func (r *recovering) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil {
		return r.fails(grants)
	}
	return r.Store.Hold(ctx, requests, grants)
}

func (r *recovering) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.returned = append(r.returned, returns...)
	return r.Store.Return(ctx, returns)
}

// TestReturnsWithoutAnAnswer: where nobody can say what is left, holds go back
// all the same, unless they may have gone back already.
func TestReturnsWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails func([]sluice.Grant) error
		want  int
	}{
		{"it is asked", nil, 0},
		{"away", func([]sluice.Grant) error { return sluice.ErrUnavailable }, 1},
		{"not asked", func(g []sluice.Grant) error { clear(g); return nil }, 1},
		{"unknown", func([]sluice.Grant) error { return sluice.ErrUnknown }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := memory.Open(memory.Config{Log: quiet})
				if err != nil {
					t.Fatal(err)
				}
				inner := &recovering{Store: store}
				var heard []int64
				node, err := advance.New(inner, advance.Config{Log: quiet, Heard: func(_ *sluice.Demand, r *sluice.Result) {
					heard = append(heard, r.Remaining.Thousandths())
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer node.Close()
				take(t, sluice.New(node), demand("a", "1000/day fixed"))
				synctest.Wait()
				if len(heard) != 1 || heard[0] < 999*sluice.Token { // the caller may have spent one by then
					t.Errorf("with the grant: %v", heard)
				}
				inner.mu.Lock()
				inner.fails = c.fails
				inner.mu.Unlock()
				time.Sleep(7 * time.Second)
				synctest.Wait()
				if len(inner.returned) != c.want {
					t.Errorf("returned %+v, want %d", inner.returned, c.want)
				}
				if c.fails == nil && (len(heard) != 2 || heard[1] != 999*sluice.Token) {
					t.Errorf("with the return: %v", heard)
				}
			})
		})
	}
}

// TestAnAnswerAboutAnotherLimit: what the store says of the limit before, while a
// request is under way, tells nothing of the one that a bucket has now.
func TestAnAnswerAboutAnotherLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.Open(memory.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		node, err := advance.New(&distant{Store: store, trip: 4 * time.Millisecond}, advance.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		l := sluice.New(node)
		take(t, l, costing(demand("a", "100/h burst 400"), 33)) // and more is asked for
		time.Sleep(time.Millisecond)
		got := take(t, l, demand("a", "100/h burst 500"))
		if r := got.Results[0]; r.Remaining.Whole() < 466 || r.Remaining.Whole() > 499 {
			t.Errorf("at most 34 of 500 are used, and %s remain", r.Remaining)
		}
	})
}

// slowReports is a store that holds up what is reported to it.
type slowReports struct {
	sluice.Store
	trip time.Duration
}

func (s *slowReports) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	if requests[0].Spent.Thousandths() > 0 {
		time.Sleep(s.trip)
	}
	return s.Store.Hold(ctx, requests, grants)
}

// TestAReportThatIsOvertaken: the answer to a report that was sent before a take
// and made after it is passed on, although the take's answer is newer.
func TestAReportThatIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.Open(memory.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var mu sync.Mutex
		least := sluice.MaxThousandths
		node, err := advance.New(&slowReports{store, 4 * time.Millisecond}, advance.Config{Log: quiet, Heard: func(_ *sluice.Demand, r *sluice.Result) {
			mu.Lock()
			defer mu.Unlock()
			least = min(least, r.Remaining.Thousandths())
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		l := sluice.New(node)
		for range 3 {
			take(t, l, demand("a", "1000/day"))
		}
		synctest.Wait()
		go node.Reset(t.Context(), []sluice.Key{demand("a", "1000/day").Key}) // reports first
		time.Sleep(time.Millisecond)
		take(t, l, costing(demand("a", "1000/day"), 200))
		time.Sleep(10 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if sluice.Thousandths(least).Whole() != 797 {
			t.Errorf("the least that was heard of is %s, want 797", sluice.Thousandths(least))
		}
	})
}
