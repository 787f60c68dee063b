package advance_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/memory"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// shared lets several nodes close one store.
type shared struct{ sluice.Store }

func (shared) Close() error { return nil }

func cluster(t testing.TB, nodes int) (*memory.Store, []*advance.Store) {
	t.Helper()
	store, err := memory.Open(memory.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	var all []*advance.Store
	for range nodes {
		s, err := advance.New(shared{store}, advance.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		all = append(all, s)
	}
	return store, all
}

func demand(entity, limit string) sluice.Demand {
	return sluice.Demand{Key: sluice.Key{Entity: entity, Limit: "l"}, Limit: sluice.MustParse(limit)}
}

func TestUnderTheLimitMostTakesAreLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := cluster(t, 1)
		l := sluice.New(nodes[0])
		for i := range 10_000 {
			d, err := l.Take(context.Background(), demand("a", "2000/s"))
			if err != nil || !d.Allowed {
				t.Fatalf("take %d: %+v, %v", i, d, err)
			}
			time.Sleep(time.Millisecond)
		}
		st := nodes[0].Stats()
		if st.Held < 9_990 || st.Asked > 200 {
			t.Errorf("%+v: want nearly all takes decided with held tokens and few requests", st)
		}
	})
}

func TestSaturatedNodesShareAllThereIsAndNoMore(t *testing.T) {
	for _, limit := range []string{"100/s burst 200", "1000/s", "1000/s burst 100"} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, nodes := cluster(t, 4)
				const seconds = 20
				var mu sync.Mutex
				allowed, start := 0, time.Now()
				var wg sync.WaitGroup
				for n, node := range nodes {
					l := sluice.New(node)
					for c := range 4 {
						wg.Go(func() {
							r := rand.New(rand.NewPCG(uint64(n), uint64(c)))
							for time.Since(start) < seconds*time.Second {
								d, err := l.Take(context.Background(), demand("a", limit))
								if err != nil {
									t.Error(err)
									return
								}
								if d.Allowed {
									mu.Lock()
									allowed++
									mu.Unlock()
								}
								time.Sleep(time.Duration(r.IntN(4000)) * time.Microsecond)
							}
						})
					}
				}
				wg.Wait()
				lim := sluice.MustParse(limit)
				bound := int(lim.Capacity().Thousandths()/sluice.Token) + int(time.Since(start).Seconds()*float64(lim.Amount.Thousandths()/sluice.Token))
				t.Logf("%s: %d allowed of %d; %+v", limit, allowed, bound, nodes[0].Stats())
				if allowed > bound {
					t.Errorf("%d allowed, more than the bound of %d", allowed, bound)
				}
				if allowed < bound*97/100 {
					t.Errorf("%d allowed, less than 97 %% of %d", allowed, bound)
				}
			})
		})
	}
}

// buckets is what a store shows of the buckets in it.
func buckets(t *testing.T, store sluice.Store) []sluice.Bucket {
	t.Helper()
	p, err := store.List(context.Background(), sluice.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return p.Buckets
}

// TestHoldsGoBackWhenIdleAndOnClose, also if refill would soon make up for them:
// until their expiry they would be missing, and then count as spent.
func TestHoldsGoBackWhenIdleAndOnClose(t *testing.T) {
	for _, limit := range []string{"1000/hour", "1000/s"} {
		synctest.Test(t, func(t *testing.T) {
			store, nodes := cluster(t, 2)
			for i, n := range nodes {
				take(t, sluice.New(n), demand(fmt.Sprint("e", i), limit))
			}
			held := func() (sum int64) {
				for _, b := range buckets(t, store) {
					sum += b.Held.Thousandths()
				}
				return sum
			}
			if h := held(); h != 200*sluice.Token {
				t.Fatalf("%s: %s held", limit, sluice.Thousandths(h))
			}
			nodes[0].Close()
			if h := held(); h != 100*sluice.Token {
				t.Errorf("%s: %s held after one node was closed", limit, sluice.Thousandths(h))
			}
			time.Sleep(7 * time.Second)
			if h := held(); h != 0 {
				t.Errorf("%s: %s still held by an idle node", limit, sluice.Thousandths(h))
			}
			d, err := sluice.New(store).Peek(context.Background(), demand("e0", limit))
			if err != nil || d.Results[0].Remaining.Thousandths() < 999*sluice.Token {
				t.Errorf("after the return: %+v, %v", d.Results[0], err)
			}
		})
	}
}

// TestHoldsGoBackBeforeTheyLapse, so that nothing counts as spent that was not.
func TestHoldsGoBackBeforeTheyLapse(t *testing.T) {
	for _, limit := range []string{"1000/hour", "1000/s"} {
		synctest.Test(t, func(t *testing.T) {
			store, nodes := cluster(t, 1)
			l := sluice.New(nodes[0])
			for range 30 {
				take(t, l, demand("a", limit))
				time.Sleep(time.Second)
			}
			if b := buckets(t, store); len(b) != 1 || b[0].Consumed.Thousandths() > 30*sluice.Token {
				t.Errorf("%s: 30 were taken, and consumed is %+v", limit, b)
			}
		})
	}
}

// TestAllThatIsHeldGoesBackForWhoNeedsIt: all that is not spent, of however many
// holds.
func TestAllThatIsHeldGoesBackForWhoNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, nodes := cluster(t, 1)
		l, dm := sluice.New(nodes[0]), demand("a", "1000/day fixed")
		for range 80 { // when little is left of a hold, the node asks for another
			take(t, l, dm)
		}
		synctest.Wait()
		if st := nodes[0].Stats(); st.Granted != 2 {
			t.Fatalf("%d holds", st.Granted)
		}
		if d := take(t, l, costing(dm, 920)); !d.Allowed || d.Results[0].Remaining.Thousandths() != 0 {
			t.Errorf("of 1000 with 80 spent, 920 are refused: %+v", d)
		}
		if b := buckets(t, store)[0]; b.Held.Thousandths() != 0 || b.Consumed.Thousandths() != 1000*sluice.Token {
			t.Errorf("%s held and %s consumed", b.Held, b.Consumed)
		}
	})
}
