package advance_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/memory"
)

// distant is a store some way off.
type distant struct {
	sluice.Store
	trip                  time.Duration // there and back
	takes, holds, returns atomic.Int64
}

func (s *distant) travel(calls *atomic.Int64, do func() error) error {
	calls.Add(1)
	time.Sleep(s.trip / 2)
	err := do()
	time.Sleep(s.trip / 2)
	return err
}

func (s *distant) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	return s.travel(&s.takes, func() error { return s.Store.Take(ctx, t, d) })
}

func (s *distant) Hold(ctx context.Context, r []sluice.HoldRequest, g []sluice.Grant) error {
	return s.travel(&s.holds, func() error { return s.Store.Hold(ctx, r, g) })
}

func (s *distant) Return(ctx context.Context, r []sluice.HoldReturn) error {
	return s.travel(&s.returns, func() error { return s.Store.Return(ctx, r) })
}

func (s *distant) Close() error { return nil }

// TestRefusalsOfADrainedBucketDoNotWait has many callers ask far more of a
// bucket than there is. Those who cannot get any of what is due are refused at
// once while others ask the store, and still all there is is admitted.
func TestRefusalsOfADrainedBucketDoNotWait(t *testing.T) {
	for _, c := range []struct {
		limit  string
		waited float64 // percent of the refusals, at most
		calls  int64   // of the store, at most
	}{
		{"100/s burst 200", 1, 800},
		{"1000/s", 1, 900},
		{"5000/s burst 1000", 1, 900},
		{"1000/s burst 100", 3, 1500},
		{"400/s fixed", 1, 900},
		{"60/minute burst 60", 0.5, 600},
		{"10/s burst 10", 0.5, 600}, // too small to hold
	} {
		t.Run(c.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := sluice.MustParse(c.limit)
				o := overload(t, func(*rand.Rand) []sluice.Demand {
					return []sluice.Demand{{Key: sluice.Key{Entity: "hot"}, Limit: limit}}
				})
				o.admittedOf(t, limit)
				waited := 100 * float64(o.waited) / float64(o.refused)
				calls := o.store.takes.Load() + o.store.holds.Load() + o.store.returns.Load()
				t.Logf("of %d refusals %.2f %% waited; %d takes, %d holds and %d returns reached the store",
					o.refused, waited, o.store.takes.Load(), o.store.holds.Load(), o.store.returns.Load())
				if waited > c.waited || calls > c.calls {
					t.Errorf("%.2f %% of the refusals waited and the store was called %d times, want at most %g %% and %d",
						waited, calls, c.waited, c.calls)
				}
			})
		})
	}
}

// TestSaturatedTakesOfSeveralLimits drains a bucket that all takes have in
// common by takes that other limits refuse as often as not.
func TestSaturatedTakesOfSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names [30]string
		for i := range names {
			names[i] = fmt.Sprint(i)
		}
		all, key, ip := sluice.MustParse("500/s burst 1000"), sluice.MustParse("100/s burst 200"), sluice.MustParse("30/s burst 30")
		o := overload(t, func(r *rand.Rand) []sluice.Demand {
			n := min(r.IntN(len(names)), r.IntN(len(names))) // some are hot
			return []sluice.Demand{
				{Key: sluice.Key{Entity: "all"}, Limit: all},
				{Key: sluice.Key{Entity: "key " + names[n/2]}, Limit: key},
				{Key: sluice.Key{Entity: "ip " + names[n]}, Limit: ip},
			}
		})
		o.admittedOf(t, all)
	})
}

// TestWhoMayGetSomethingWaits has callers come at once to a bucket that was
// drained. As many as can get something wait for it; the rest is refused at
// once.
func TestWhoMayGetSomethingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := cluster(t, 0)
		const trip = 4 * time.Millisecond
		node, err := advance.New(&distant{Store: store, trip: trip}, advance.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		l := sluice.New(node)
		dm := demand("a", "100/s burst 200")
		for take(t, l, dm).Allowed {
		}
		for _, callers := range []int{10, 30} {
			time.Sleep(205 * time.Millisecond) // brings 20, and a rest
			var wg sync.WaitGroup
			var allowed, refused, waited atomic.Int64
			for range callers {
				wg.Go(func() {
					called := time.Now()
					d, err := l.Take(context.Background(), dm)
					switch {
					case err != nil:
						t.Error(err)
					case d.Allowed:
						allowed.Add(1)
					default:
						refused.Add(1)
						if time.Since(called) > 0 {
							waited.Add(1)
						}
						if d.RetryAfter <= 0 || d.RetryAfter > 100*time.Millisecond {
							t.Errorf("told to retry in %s, want about as long as one token takes for each ahead", d.RetryAfter)
						}
					}
				})
			}
			wg.Wait()
			t.Logf("of %d callers %d got something and %d were refused, %d of them after a while", callers, allowed.Load(), refused.Load(), waited.Load())
			if want := int64(min(callers, 20)); allowed.Load() < want || allowed.Load() > want+1 || waited.Load() > 1 {
				t.Errorf("%d got something, want %d, and nobody else to wait", allowed.Load(), want)
			}
			for take(t, l, dm).Allowed {
			}
		}
	})
}

// TestDemandBelowTheLimitPasses has four nodes ask for 95 % of what there is:
// hardly any of it may be refused because the rest is in other hands.
func TestDemandBelowTheLimitPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := cluster(t, 0)
		const takes, length = 950 * 20, 20 * time.Second
		var nodes [4]*sluice.Limiter
		for i := range nodes {
			node, err := advance.New(&distant{Store: store, trip: 4 * time.Millisecond}, advance.Config{Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer node.Close()
			nodes[i] = sluice.New(node)
		}
		r := rand.New(rand.NewPCG(1, 2))
		var refused atomic.Int64
		var wg sync.WaitGroup
		for range takes {
			l := nodes[r.IntN(len(nodes))]
			wg.Go(func() {
				if d, err := l.Take(context.Background(), demand("a", "1000/s")); err != nil {
					t.Error(err)
				} else if !d.Allowed {
					refused.Add(1)
				}
			})
			time.Sleep(length / takes)
		}
		wg.Wait()
		t.Logf("%d of %d refused", refused.Load(), takes)
		if refused.Load() > takes/100 {
			t.Errorf("%d of %d refused, want less than 1 %%", refused.Load(), takes)
		}
	})
}

// TestSmallerCostsAreStillAskedFor has a large cost refused again and again,
// while there is enough for small ones.
func TestSmallerCostsAreStillAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := cluster(t, 0)
		node, err := advance.New(&distant{Store: store, trip: 4 * time.Millisecond}, advance.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		l := sluice.New(node)
		small, large := demand("a", "100/hour"), demand("a", "100/hour")
		large.Cost = sluice.Tokens(10)
		for range 9 {
			if !take(t, l, large).Allowed {
				t.Fatal("refused too early")
			}
		}
		take(t, l, small) // and so 9 are left
		stop := time.Now().Add(5 * time.Second)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for time.Now().Before(stop) {
					if take(t, l, large).Allowed {
						t.Error("a cost of 10 passed where 9 are left")
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for range 9 {
			time.Sleep(500 * time.Millisecond)
			if d := take(t, l, small); !d.Allowed {
				t.Errorf("a cost of 1 was refused: %+v", d)
			}
		}
		wg.Wait()
	})
}

// overloaded is what came of asking for too much.
type overloaded struct {
	store           *distant
	lasted          time.Duration
	allowed         int64
	held            int64 // at the end
	refused, waited int   // waited are those of the refused that took any time
}

// overload has callers on several nodes take what demands says, as often as
// they can.
func overload(t *testing.T, demands func(*rand.Rand) []sluice.Demand) *overloaded {
	t.Helper()
	store, err := memory.Open(memory.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	const nodes, callers, length = 3, 12, 3 * time.Second
	o := &overloaded{store: &distant{Store: store, trip: 4 * time.Millisecond}}
	start := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := range nodes {
		node, err := advance.New(o.store, advance.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		l := sluice.New(node)
		for c := range callers {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(n), uint64(c)))
				for time.Since(start) < length {
					called := time.Now()
					d, err := l.Take(context.Background(), demands(r)...)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					switch {
					case d.Allowed:
						o.allowed += d.Granted.Thousandths()
					case d.RetryAfter <= 0 || d.RetryAfter > 2*time.Minute:
						t.Errorf("told to retry in %s", d.RetryAfter)
					default:
						o.refused++
						if time.Since(called) > 0 {
							o.waited++
						}
					}
					mu.Unlock()
					time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
				}
			})
		}
	}
	wg.Wait()
	o.lasted = time.Since(start)
	page, err := store.List(context.Background(), sluice.Query{Entity: "hot"})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range page.Buckets {
		o.held += b.Held.Thousandths()
	}
	return o
}

// admittedOf checks that nearly all that limit allows was admitted, and no
// more.
func (o *overloaded) admittedOf(t *testing.T, limit sluice.Limit) {
	t.Helper()
	bound := limit.Capacity().Thousandths() + int64(float64(limit.Amount.Thousandths())*float64(o.lasted)/float64(limit.Period))
	if limit.Algorithm == sluice.FixedWindow {
		bound = limit.Capacity().Thousandths() * int64(o.lasted/limit.Period) // the last has just begun
	}
	t.Logf("%s of %s admitted, %s held at the end", sluice.Thousandths(o.allowed), sluice.Thousandths(bound), sluice.Thousandths(o.held))
	if o.allowed > bound && limit.Algorithm != sluice.FixedWindow || o.allowed+o.held < bound*97/100 {
		t.Errorf("%s admitted and %s held, want nearly %s", sluice.Thousandths(o.allowed), sluice.Thousandths(o.held), sluice.Thousandths(bound))
	}
}

// TestWhoComesBackWhenToldPasses has one caller drain a bucket, ask a few times
// in vain, and then come back when it is told to. By then the node asks for more
// by itself, and what it has refused a moment ago is not who else wants it.
func TestWhoComesBackWhenToldPasses(t *testing.T) {
	for _, limit := range []string{"1000/s burst 200", "500/s burst 100", "100/s burst 200"} {
		synctest.Test(t, func(t *testing.T) {
			store, _ := cluster(t, 0)
			node, err := advance.New(&distant{Store: store, trip: 4 * time.Millisecond}, advance.Config{Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer node.Close()
			l := sluice.New(node)
			dm := costing(demand("a", limit), 10)
			for back := range 200 {
				d := take(t, l, dm)
				for d.Allowed {
					d = take(t, l, dm)
				}
				for range 3 {
					d = take(t, l, dm)
				}
				time.Sleep(d.RetryAfter + time.Millisecond) // the node is asking
				if again := take(t, l, dm); !again.Allowed {
					t.Fatalf("%s: back for the %d. time after %s by %s, told %s by %s", limit, back, d.RetryAfter, d.Source, again.RetryAfter, again.Source)
				}
			}
		})
	}
}
