package sluice_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

// waiting is one caller in line that can be called off.
type waiting struct {
	cancel context.CancelFunc
	err    chan error
}

func wait(t *testing.T, l *sluice.Limiter, take sluice.Take) *waiting {
	ctx, cancel := context.WithCancel(t.Context())
	w := &waiting{cancel: cancel, err: make(chan error, 1)}
	go func() {
		_, err := l.Wait(ctx, take)
		w.err <- err
	}()
	synctest.Wait()
	return w
}

// callOff cancels and expects that the caller leaves at once.
func (w *waiting) callOff(t *testing.T) {
	t.Helper()
	w.cancel()
	synctest.Wait()
	select {
	case err := <-w.err:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("called off: %v", err)
		}
	default:
		t.Error("still in line after being called off")
	}
}

// TestCancellationFreesThePlace: whoever gives up, first in line or not, is
// gone at once, and those behind are served as if it had never been there.
func TestCancellationFreesThePlace(t *testing.T) {
	for _, limit := range []string{"1/s burst 1", "1/s fixed"} {
		synctest.Test(t, func(t *testing.T) {
			l := open(t)
			one := demand("api", limit, 1)
			mustTake(t, l, one)
			a := wait(t, l, takeOf(one))
			b := wait(t, l, takeOf(one))
			c := newCrowd(t)
			c.arrive(l, "c", takeOf(one))
			c.arrive(l, "d", takeOf(one))
			time.Sleep(500 * time.Millisecond)
			b.callOff(t)
			a.callOff(t)
			served := c.all()
			if served[0] != (service{"c", time.Second}) || served[1] != (service{"d", 2 * time.Second}) {
				t.Errorf("%s: %v", limit, served)
			}
		})
	}
}

// TestCancellationCostsNothing: nothing is taken before its caller acts, so
// nothing has to be given back.
func TestCancellationCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &ledger{}
		l := open(t, sluice.WithObserver(seen))
		slow, fast := demand("slow", "1/s burst 10", 10), demand("fast", "10/s burst 100", 20)
		mustTake(t, l, slow, fast)
		w := wait(t, l, takeOf(slow, fast))
		if n := remaining(t, l, slow); n != 0 {
			t.Fatalf("%s are left while somebody waits", sluice.Thousandths(n))
		}
		if q := l.Waiting(slow.Key); q.Length != 1 || l.Waiting(fast.Key).Length != 0 || l.WaitingAll().Length != 1 {
			t.Errorf("%+v wait", q)
		}
		time.Sleep(2 * time.Second)
		if q := l.Waiting(slow.Key); q.Longest != 2*time.Second {
			t.Errorf("the first has waited %s", q.Longest)
		}
		w.callOff(t)
		if n := remaining(t, l, slow); n != 2*sluice.Token {
			t.Errorf("slow: %s are left", sluice.Thousandths(n))
		}
		if n := seen.net(slow.Key); n != 10*sluice.Token {
			t.Errorf("net consumption is %s", sluice.Thousandths(n))
		}
		if seen.allowed != 1 || seen.refused != 1 || l.WaitingAll().Length != 0 {
			t.Errorf("%d allowed, %d refused", seen.allowed, seen.refused)
		}
	})
}

// TestCancelledWaitersLetNobodyThroughEarly: ten callers give up on several
// nodes and ten more arrive: no more act than the limit lets pass.
func TestCancelledWaitersLetNobodyThroughEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		limiters := make([]*sluice.Limiter, 10)
		one := demand("api", "10/s burst 1", 1)
		var gone []*waiting
		for i := range limiters {
			limiters[i] = sluice.New(store)
		}
		mustTake(t, limiters[0], one)
		for _, l := range limiters {
			time.Sleep(time.Microsecond)
			gone = append(gone, wait(t, l, takeOf(one)))
		}
		c := newCrowd(t)
		for i, l := range limiters {
			time.Sleep(time.Microsecond)
			gone[i].callOff(t)
			c.arrive(l, "late", takeOf(one))
		}
		for i, s := range c.all() {
			if earliest := time.Duration(i+1)*100*time.Millisecond - time.Millisecond; s.at < earliest {
				t.Errorf("the %dth acted after %s", i+1, s.at)
			}
		}
	})
}

// TestDeadlineInLine: the deadline ends the wait of those that do not lead.
func TestDeadlineInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		one := demand("api", "1/minute burst 1", 1)
		mustTake(t, l, one)
		c := newCrowd(t)
		c.arrive(l, "first", takeOf(one))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Wait(ctx, takeOf(one)); !errors.Is(err, context.DeadlineExceeded) || since(c.start) != time.Second {
			t.Errorf("after %s: %v", since(c.start), err)
		}
		c.all()
	})
}

// TestWaitingTwiceWithOneID: whoever is served first is charged, and the other
// gets its answer.
func TestWaitingTwiceWithOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		seen := &ledger{}
		here, there := sluice.New(store, sluice.WithObserver(seen)), sluice.New(store, sluice.WithObserver(seen))
		one := demand("api", "1/s burst 1", 1)
		mustTake(t, here, one)
		take := takeOf(one)
		take.ID = "once"
		c := newCrowd(t)
		c.arrive(here, "first", take)
		again := wait(t, there, take)
		time.Sleep(time.Microsecond)
		c.arrive(there, "repeated", take)
		again.callOff(t)
		for _, s := range c.all() {
			if s.at > 2*time.Second+time.Millisecond {
				t.Errorf("%+v, want it soon after a second", s)
			}
		}
		if n := seen.net(one.Key); n != 2*sluice.Token {
			t.Errorf("net consumption is %s", sluice.Thousandths(n))
		}
		page, err := here.List(t.Context(), sluice.Query{})
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range page.Buckets {
			if b.Tickets != 0 {
				t.Errorf("%d tickets are left of who got an earlier answer", b.Tickets)
			}
		}
	})
}

// farReturns is a store that takes its time to remove a ticket.
type farReturns struct {
	*memory.Store
	back chan struct{}
}

func (f *farReturns) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	<-f.back
	return f.Store.Return(ctx, returns)
}

// TestNextInLineDoesNotWaitForAFarewell: whoever gives up is out of its own
// process's line before its ticket is out of the store.
func TestNextInLineDoesNotWaitForAFarewell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &farReturns{openStore(t), make(chan struct{})}
		l := sluice.New(store)
		mustTake(t, l, demand("api", "1/s burst 10", 10))
		large := wait(t, l, takeOf(demand("api", "1/s burst 10", 5)))
		small := wait(t, l, takeOf(demand("api", "1/s burst 10", 1)))
		time.Sleep(1500 * time.Millisecond)
		large.cancel()
		synctest.Wait()
		select {
		case err := <-small.err:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("the next in line waits until the ticket of who gave up is removed")
		}
		close(store.back)
		large.callOff(t)
	})
}
