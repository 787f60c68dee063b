package failover_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/memory"
)

// shared is a demand on a limit of all callers.
func shared(limit string) sluice.Demand {
	return sluice.Demand{Key: sluice.Key{Resource: "api", Limit: "all"}, Limit: sluice.MustParse(limit)}
}

func TestASharedLimitKeepsItsSizeOverTheNodes(t *testing.T) {
	for limit, want := range map[string]int{"10000/s": 3333, "10000/s fixed": 3333, "100/s burst 600": 200, "10000/minute sliding": 3333} {
		synctest.Test(t, func(t *testing.T) {
			l, s, f := open(t, failover.Config{Nodes: func() int { return 3 }})
			breakOpen(t, l, s, f)
			if n := spend(t, l, "free", shared(limit)); n != want {
				t.Errorf("%s: %d passed on one of 3 nodes, want %d", limit, n, want)
			}
			if n := spend(t, l, "free", demand("alice")); n != 6 {
				t.Errorf("%d of a caller's passed beside it, want 6", n)
			}
		})
	}
}

// Both apply: the caller's quota, and what all callers share.
func TestASharedLimitAndACallersQuotaDecideTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		n := 0
		for decide(t, l, "free", shared("10/h"), demand("alice")).Allowed {
			n++
		}
		if n != 6 {
			t.Errorf("%d passed, want 6 of the caller's quota", n)
		}
		if n := spend(t, l, "free", shared("10/h")); n != 4 {
			t.Errorf("%d are left for others, want 4: a refusal takes nothing", n)
		}
	})
}

// A limit of concurrency counts nobody without the store.
func TestSharedConcurrencyHasAQuotaOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		n := 0
		for ; ; n++ {
			_, d, err := l.Acquire(t.Context(), sluice.Take{Tier: "enterprise", Demands: []sluice.Demand{shared("5 concurrent")}})
			if err != nil {
				t.Fatal(err)
			}
			if !d.Allowed {
				break
			}
		}
		if n != 100 {
			t.Errorf("%d passed, want the tier's 100", n)
		}
	})
}

func TestCensus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, f := open(t, failover.Config{})
		f.checked = true
		nodes := make([]failover.Census, 3)
		want := func(n int) {
			t.Helper()
			for i := range n {
				if got := nodes[i].Nodes(); got != n {
					t.Errorf("node %d counts %d, want %d", i, got, n)
				}
			}
		}
		if n := nodes[0].Nodes(); n != 1 {
			t.Errorf("%d nodes before any is counted", n)
		}
		for i := range nodes {
			nodes[i].Name = fmt.Sprint("node ", i)
			nodes[i].Start(s)
			defer nodes[i].Close()
		}
		time.Sleep(11 * time.Second)
		want(3)
		time.Sleep(time.Hour)
		want(3)
		known := nodes[0].Known()
		if len(known) != 3 || known[2].Name != "node 2" || time.Since(known[2].Heard) > 21*time.Second || known[2].Heard.After(time.Now()) {
			t.Errorf("at %s: %+v", time.Now(), known)
		}
		f.set(refuses)
		time.Sleep(time.Minute)
		want(3) // the last that is known
		f.set(none)
		time.Sleep(2 * time.Minute)
		want(3)
		if err := nodes[2].Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(11 * time.Second)
		want(2)
		if known := nodes[1].Known(); len(known) != 2 {
			t.Errorf("%+v", known)
		}
	})
}

// TestNodesThatLostTheStoreAddTheirPartsOnly takes all there is of a shared limit on
// three nodes, some of which have lost the store. Together that is at most (1 +
// lost/nodes) times the limit.
func TestNodesThatLostTheStoreAddTheirPartsOnly(t *testing.T) {
	for lost := range 4 {
		synctest.Test(t, func(t *testing.T) {
			inner, err := memory.Open(memory.Config{Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			var nodes [3]struct {
				*faulty
				store  *failover.Store
				census failover.Census
			}
			for i := range nodes {
				n := &nodes[i]
				n.faulty, n.census.Name = &faulty{Store: inner, checked: true}, fmt.Sprint(i)
				if n.store, err = failover.New(n.faulty, failover.Config{Log: quiet, Nodes: n.census.Nodes}); err != nil {
					t.Fatal(err)
				}
				n.census.Start(n.store)
				defer n.store.Close()
				defer n.census.Close()
			}
			time.Sleep(11 * time.Second)
			for i := range lost {
				nodes[i].set(refuses)
			}
			passed := 0
			for i := range nodes {
				passed += spend(t, sluice.New(nodes[i].store), "free", shared("300/d"))
			}
			want := 300 + 100*lost
			if lost == 3 {
				want = 300 // nobody asks the store
			}
			if passed != want {
				t.Errorf("%d of 3 nodes lost the store: %d passed of 300, want %d", lost, passed, want)
			}
		})
	}
}
