package advance_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/memory"
)

// counting counts what reaches the store, and can lose answers.
type counting struct {
	sluice.Store
	takes, holds atomic.Int64
	unknown      atomic.Bool
	down         atomic.Bool
}

func (c *counting) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	c.takes.Add(1)
	if c.down.Load() {
		return sluice.ErrUnavailable
	}
	err := c.Store.Take(ctx, t, d)
	if c.unknown.Load() {
		return sluice.ErrUnknown
	}
	return err
}

func (c *counting) Hold(ctx context.Context, r []sluice.HoldRequest, g []sluice.Grant) error {
	c.holds.Add(1)
	if c.down.Load() {
		return sluice.ErrUnavailable
	}
	return c.Store.Hold(ctx, r, g)
}

func (c *counting) Close() error { return nil }

// onNode runs a test on one node in front of a store that counts.
func onNode(t *testing.T, test func(t *testing.T, inner *counting, l *sluice.Limiter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.Open(memory.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		inner := &counting{Store: store}
		node, err := advance.New(inner, advance.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		test(t, inner, sluice.New(node))
	})
}

func take(t *testing.T, l *sluice.Limiter, demands ...sluice.Demand) sluice.Decision {
	t.Helper()
	d, err := l.Take(context.Background(), demands...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAnswersSayWhereTheyComeFrom(t *testing.T) {
	onNode(t, func(t *testing.T, _ *counting, l *sluice.Limiter) {
		large, small := demand("large", "1000/minute"), demand("small", "2/minute")
		if d := take(t, l, large); d.Source != sluice.FromHeld || !d.Allowed || d.Granted.Thousandths() != sluice.Token {
			t.Errorf("plenty: %+v", d)
		}
		for range 2 {
			if d := take(t, l, small); d.Source != sluice.FromStore || !d.Allowed {
				t.Errorf("too small to hold: %+v", d)
			}
		}
		if d := take(t, l, small); d.Source != sluice.FromStore || d.Allowed {
			t.Errorf("first refusal: %+v", d)
		}
		d := take(t, l, small)
		if d.Source != sluice.FromDenyCache || d.Allowed || d.RetryAfter != 30*time.Second {
			t.Errorf("second refusal: %+v", d)
		}
	})
}

func TestWhatIsNeverHeld(t *testing.T) {
	critical, shadow, counted := demand("a", "1000/s"), demand("b", "1000/s"), demand("c", "1000/s")
	critical.Critical, shadow.Shadow, counted.CountRefused = true, true, true
	for name, dm := range map[string]sluice.Demand{
		"critical": critical, "shadow": shadow, "counting refused": counted,
		"sliding": demand("d", "1000/s sliding"), "small": demand("e", "39/s"),
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(t *testing.T, inner *counting, l *sluice.Limiter) {
				for range 10 {
					if d := take(t, l, dm); d.Source != sluice.FromStore {
						t.Errorf("%+v", d)
					}
				}
				if inner.takes.Load() != 10 || inner.holds.Load() != 0 {
					t.Errorf("%d takes and %d holds reached the store, want 10 and 0", inner.takes.Load(), inner.holds.Load())
				}
			})
		})
	}
}

func TestCriticalRefusalsAreNotRemembered(t *testing.T) {
	onNode(t, func(t *testing.T, inner *counting, l *sluice.Limiter) {
		dm := demand("a", "2/minute")
		dm.Critical = true
		for range 5 {
			take(t, l, dm)
		}
		if n := inner.takes.Load(); n != 5 {
			t.Errorf("%d takes reached the store, want all 5", n)
		}
	})
}

func TestDenyCacheIsForCostsAtOrAboveTheRefusedOne(t *testing.T) {
	onNode(t, func(t *testing.T, inner *counting, l *sluice.Limiter) {
		cost := func(n int64) sluice.Demand {
			dm := demand("a", "10/hour")
			dm.Cost = sluice.Tokens(n)
			return dm
		}
		take(t, l, cost(6))
		if take(t, l, cost(5)).Allowed {
			t.Fatal("5 of the remaining 4 passed")
		}
		if d := take(t, l, cost(7)); d.Allowed || d.Source != sluice.FromDenyCache {
			t.Errorf("a greater cost: %+v", d)
		}
		if d := take(t, l, cost(4)); !d.Allowed {
			t.Errorf("a smaller cost: %+v", d)
		}
		if d := take(t, l, cost(11)); d.RetryAfter != sluice.Never {
			t.Errorf("a cost above the capacity: %+v, want never", d)
		}
	})
}

func TestRefundsEndARefusal(t *testing.T) {
	onNode(t, func(t *testing.T, inner *counting, l *sluice.Limiter) {
		dm := demand("a", "2/hour")
		for range 3 {
			take(t, l, dm)
		}
		refund := dm
		refund.Cost = sluice.Thousandths(-sluice.Token)
		if _, err := l.Adjust(context.Background(), refund); err != nil {
			t.Fatal(err)
		}
		if !take(t, l, dm).Allowed {
			t.Error("refused right after a refund by this node")
		}
		take(t, l, dm)
		if err := l.Reset(context.Background(), dm.Key); err != nil {
			t.Fatal(err)
		}
		if !take(t, l, dm).Allowed {
			t.Error("refused right after a reset by this node")
		}
		take(t, l, dm)
		take(t, l, dm)
		elsewhere := sluice.New(inner.Store)
		if err := elsewhere.Reset(context.Background(), dm.Key); err != nil {
			t.Fatal(err)
		}
		if take(t, l, dm).Allowed {
			t.Error("passed at once after a reset elsewhere: the refusal was not remembered")
		}
		time.Sleep(time.Second)
		if !take(t, l, dm).Allowed {
			t.Error("refused a second after a reset elsewhere")
		}
	})
}

func TestMixedTakesAreAllOrNothing(t *testing.T) {
	onNode(t, func(t *testing.T, inner *counting, l *sluice.Limiter) {
		wide, narrow := demand("wide", "1000/hour"), demand("narrow", "3/hour")
		for range 3 {
			if d := take(t, l, wide, narrow); !d.Allowed {
				t.Fatalf("%+v", d)
			}
		}
		for range 20 {
			d := take(t, l, wide, narrow)
			if d.Allowed || d.Decider != 1 || d.Results[0].Consumed.Thousandths() != 0 {
				t.Fatalf("%+v", d)
			}
			time.Sleep(2 * time.Second)
		}
		time.Sleep(10 * time.Second) // holds go back
		d, err := sluice.New(inner.Store).Peek(context.Background(), wide)
		if err != nil {
			t.Fatal(err)
		}
		if used := 1000*sluice.Token - d.Results[0].Remaining.Thousandths(); used > 3*sluice.Token {
			t.Errorf("%s of the wide limit is used by 3 takes and 20 refusals", sluice.Thousandths(used))
		}
	})
}

func TestUnknownMeansSpent(t *testing.T) {
	onNode(t, func(t *testing.T, inner *counting, l *sluice.Limiter) {
		wide, narrow := demand("wide", "1000/week"), demand("narrow", "30/week")
		take(t, l, wide)
		inner.unknown.Store(true)
		for range 5 {
			if _, err := l.Take(context.Background(), wide, narrow); !errors.Is(err, sluice.ErrUnknown) {
				t.Fatalf("error %v, want unknown", err)
			}
		}
		inner.unknown.Store(false)
		if n := inner.takes.Load(); n != 5 {
			t.Errorf("%d takes reached the store, want 5: an unknown take must not be sent again", n)
		}
		time.Sleep(10 * time.Second)
		d, err := sluice.New(inner.Store).Peek(context.Background(), wide)
		if err != nil {
			t.Fatal(err)
		}
		if used := 1000*sluice.Token - d.Results[0].Remaining.Thousandths(); used < 5900 {
			t.Errorf("%s used, want the 6 that may have been", sluice.Thousandths(used))
		}
	})
}

func TestALargeCostIsNotStarvedByHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := cluster(t, 5)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for _, n := range nodes[1:] {
			l := sluice.New(n)
			wg.Go(func() {
				for ctx.Err() == nil {
					if _, err := l.Take(context.Background(), demand("a", "20/s burst 200")); err != nil {
						t.Error(err)
					}
					time.Sleep(500 * time.Millisecond)
				}
			})
		}
		time.Sleep(5 * time.Second)
		large := demand("a", "20/s burst 200")
		large.Cost = sluice.Tokens(190)
		l := sluice.New(nodes[0])
		start := time.Now()
		for {
			d := take(t, l, large)
			if d.Allowed {
				break
			}
			if time.Since(start) > 30*time.Second {
				t.Fatalf("still refused after 30 s: %+v", d)
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Logf("passed after %s", time.Since(start))
		cancel()
		wg.Wait()
	})
}

func TestStoreDownFallsThrough(t *testing.T) {
	onNode(t, func(t *testing.T, inner *counting, l *sluice.Limiter) {
		inner.down.Store(true)
		dm := demand("a", "1000/s")
		for range 10 {
			if _, err := l.Take(context.Background(), dm); !errors.Is(err, sluice.ErrUnavailable) {
				t.Fatalf("error %v, want unavailable", err)
			}
		}
		inner.down.Store(false)
		time.Sleep(100 * time.Millisecond)
		take(t, l, dm)
		if d := take(t, l, dm); d.Source != sluice.FromHeld {
			t.Errorf("after the store is back: %+v", d)
		}
	})
}

func TestHeldTokensOutliveTheStore(t *testing.T) {
	onNode(t, func(t *testing.T, inner *counting, l *sluice.Limiter) {
		dm := demand("a", "10000/minute")
		take(t, l, dm)
		inner.down.Store(true)
		for range 100 {
			if d := take(t, l, dm); d.Source != sluice.FromHeld {
				t.Fatalf("%+v", d)
			}
		}
		time.Sleep(9100 * time.Millisecond)
		if _, err := l.Take(context.Background(), dm); !errors.Is(err, sluice.ErrUnavailable) {
			t.Errorf("a hold was spent after nine tenths of its life: %v", err)
		}
	})
}

func TestChangedLimit(t *testing.T) {
	onNode(t, func(t *testing.T, _ *counting, l *sluice.Limiter) {
		take(t, l, demand("a", "1000/hour"))
		d := take(t, l, demand("a", "500/hour"))
		if !d.Allowed || d.Source != sluice.FromHeld {
			t.Errorf("%+v", d)
		}
	})
}

func TestBeyondTheBoundTheStoreDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := cluster(t, 0)
		node, err := advance.New(shared{store}, advance.Config{MaxBuckets: 256, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		l := sluice.New(node)
		for i := range 5000 {
			if d := take(t, l, demand(fmt.Sprint(i), "1000/hour")); !d.Allowed {
				t.Fatalf("%+v", d)
			}
		}
		if st := node.Stats(); st.Buckets > 256 || st.Exact < 4000 {
			t.Errorf("%+v, want at most 256 buckets", st)
		}
	})
}

func TestCloseReleasesWaitingCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := cluster(t, 0)
		node, err := advance.New(stuck{Store: shared{store}}, advance.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := sluice.New(node).Take(context.Background(), demand("a", "1000/s"))
			done <- err
		}()
		synctest.Wait()
		node.Close()
		if err := <-done; err != nil {
			t.Errorf("the caller got %v, want the store's own answer", err)
		}
	})
}

// stuck never answers requests for holds.
type stuck struct{ sluice.Store }

func (stuck) Hold(ctx context.Context, _ []sluice.HoldRequest, _ []sluice.Grant) error {
	<-ctx.Done()
	return ctx.Err()
}
