package sluice_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
)

// TestPriorities: interactive callers overtake, batch callers let pass.
func TestPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		one := demand("api", "1/s burst 1", 1)
		mustTake(t, l, one)
		c := newCrowd(t)
		for _, p := range []sluice.Priority{
			sluice.Batch, sluice.Batch, sluice.Normal, sluice.Interactive, sluice.Normal, sluice.Interactive, sluice.Batch,
		} {
			take := takeOf(one)
			take.Priority = p
			c.arrive(l, fmt.Sprint(p), take)
		}
		got := ""
		for _, s := range c.all() {
			got += s.who + " "
		}
		if want := "1 1 0 0 -1 -1 -1 "; got != want {
			t.Errorf("served %s, want %s", got, want)
		}
	})
}

// TestPatience: a caller lets those of higher priority pass that come within
// its patience after it, and nobody who comes later.
func TestPatience(t *testing.T) {
	for p, patience := range map[sluice.Priority]time.Duration{
		sluice.Batch: 30 * time.Second, sluice.Normal: 10 * time.Second, -5: 30 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			l := open(t)
			one := demand("api", "1/m burst 1", 1)
			mustTake(t, l, one)
			c := newCrowd(t)
			take := takeOf(one)
			take.Priority = p
			c.arrive(l, "patient", take)
			take.Priority = sluice.Interactive
			time.Sleep(patience - time.Millisecond)
			c.arrive(l, "within", take)
			time.Sleep(2 * time.Millisecond)
			c.arrive(l, "later", take)
			served := c.all()
			if served[0].who != "within" || served[1].who != "patient" || served[2].who != "later" {
				t.Errorf("priority %d: %v", p, served)
			}
		})
	}
}

// TestBatchIsNotStarved: interactive callers come faster than the rate, for
// ever. A batch caller is served after those that came within its patience.
func TestBatchIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, seconds = 12, 60
		l := open(t)
		one := demand("api", "10/s burst 10", 1)
		c := newCrowd(t)
		var batchCame time.Duration
		for i := range perSecond * seconds {
			take := takeOf(one)
			take.Priority = sluice.Interactive
			c.arrive(l, fmt.Sprint(since(c.start)), take)
			if i == 5*perSecond {
				take.Priority = sluice.Batch
				batchCame = since(c.start)
				c.arrive(l, "batch", take)
			}
			time.Sleep(time.Second / perSecond)
		}
		for _, s := range c.all() {
			if s.who == "batch" {
				// 12 a second for 30 s are served in 36 s; some were in line before it.
				if waited := s.at - batchCame; waited < 30*time.Second || waited > 38*time.Second {
					t.Errorf("batch waited %s", waited)
				}
				return
			}
			came, err := time.ParseDuration(s.who)
			if err != nil {
				t.Fatal(err)
			}
			if came > batchCame+30*time.Second {
				t.Fatalf("a caller that came at %s was served before the batch caller of %s", came, batchCame)
			}
		}
	})
}

// TestTwoLimitersShare: two limiters on one store, as two processes, are both
// served: alike by a token bucket; where much room comes at once, as in a
// window, all but what the other's first caller wants goes to who asks first.
func TestTwoLimitersShare(t *testing.T) {
	for _, limit := range []string{"10/s burst 1", "10/s sliding"} {
		synctest.Test(t, func(t *testing.T) {
			store := openStore(t)
			limiters := []*sluice.Limiter{sluice.New(store), sluice.New(store)}
			c := newCrowd(t)
			for range 40 {
				for i, l := range limiters {
					c.arrive(l, fmt.Sprint(i), takeOf(demand("api", limit, 1)))
					time.Sleep(time.Microsecond)
				}
			}
			served := c.all()
			for _, part := range [][]service{served[:20], served[:40], served[20:60]} {
				n := map[string]int{}
				for _, s := range part {
					n[s.who]++
				}
				if least := len(part) / 8; n["0"] < least || n["1"] < least {
					t.Errorf("%s: of %d served, %v", limit, len(part), n)
				}
			}
			if last := served[len(served)-1].at; last > 9*time.Second {
				t.Errorf("%s: 80 callers took %s", limit, last)
			}
		})
	}
}

// TestPrioritiesAcrossLimiters: an interactive caller is served before the
// batch callers of other processes, and they are served after it.
func TestPrioritiesAcrossLimiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		one := demand("api", "1/s burst 1", 1)
		mustTake(t, sluice.New(store), one)
		c := newCrowd(t)
		for i := range 4 {
			take := takeOf(one)
			take.Priority = sluice.Batch
			l := sluice.New(store)
			for range 3 {
				time.Sleep(time.Millisecond)
				c.arrive(l, fmt.Sprint("batch ", i), take)
			}
		}
		l := sluice.New(store)
		for range 3 {
			time.Sleep(time.Millisecond)
			take := takeOf(one)
			take.Priority = sluice.Interactive
			c.arrive(l, "interactive", take)
		}
		for i, s := range c.all() {
			if (i < 3) != (s.who == "interactive") || s.at != time.Duration(i+1)*time.Second {
				t.Errorf("the %dth was %+v", i+1, s)
			}
		}
	})
}

// TestOwnLimitDoesNotBlockOthers: who waits for a limit of its own keeps nobody
// from one that all share.
func TestOwnLimitDoesNotBlockOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		own, shared := demand("own", "1/minute burst 1", 1), demand("shared", "10/s burst 1", 1)
		mustTake(t, l, own, shared)
		c := newCrowd(t)
		c.arrive(l, "own", takeOf(own, shared))
		for range 20 {
			c.arrive(l, "shared", takeOf(shared))
		}
		served := c.all()
		if last := served[19]; last != (service{"shared", 2 * time.Second}) || served[20] != (service{"own", time.Minute}) {
			t.Errorf("%v", served)
		}
	})
}
