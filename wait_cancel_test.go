package sluice_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
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

// TestCancellationGivesTheTokensBack: what was taken ahead is there again, for
// other processes too.
func TestCancellationGivesTheTokensBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &ledger{}
		l := open(t, sluice.WithObserver(seen))
		slow, fast := demand("slow", "1/s burst 10", 10), demand("fast", "10/s burst 100", 20)
		mustTake(t, l, slow, fast)
		w := wait(t, l, takeOf(slow, fast))
		if n := remaining(t, l, slow); n != -10*sluice.Token {
			t.Fatalf("%s are left while somebody waits: nothing was taken ahead", n)
		}
		time.Sleep(2 * time.Second)
		w.callOff(t)
		if n := remaining(t, l, slow); n != 2*sluice.Token {
			t.Errorf("slow: %s are left", n)
		}
		if n := remaining(t, l, fast); n != 100*sluice.Token {
			t.Errorf("fast: %s are left", n)
		}
		if n := seen.net(slow.Key); n != 10*sluice.Token {
			t.Errorf("net consumption is %s", n)
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

// TestWaitingTwiceWithOneID: a repetition waits as long as the first, and its
// cancellation leaves the first what it has taken.
func TestWaitingTwiceWithOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		here, there := sluice.New(store), sluice.New(store)
		one := demand("api", "1/s burst 1", 1)
		mustTake(t, here, one)
		take := takeOf(one)
		take.ID = "once"
		c := newCrowd(t)
		c.arrive(here, "first", take)
		again := wait(t, there, take)
		c.arrive(there, "repeated", take)
		again.callOff(t)
		if n := remaining(t, here, one); n != -sluice.Token {
			t.Errorf("%s are left: a repetition gave back what was not its own", n)
		}
		for _, s := range c.all() {
			if s.at != time.Second {
				t.Errorf("%+v, want it after a second", s)
			}
		}
	})
}

// TestWithinIsTheLimitersBusiness: a delay asked for in a wait is no way
// around the line.
func TestWithinIsTheLimitersBusiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		one := demand("api", "1/s burst 1", 1)
		mustTake(t, l, one)
		take := takeOf(one)
		take.Within = time.Hour
		c := newCrowd(t)
		c.arrive(l, "a", take)
		take.Priority = sluice.Batch
		c.arrive(l, "batch", take)
		take.Priority = sluice.Interactive
		c.arrive(l, "interactive", take)
		served := c.all()
		if served[1] != (service{"interactive", 2 * time.Second}) || served[2] != (service{"batch", 3 * time.Second}) {
			t.Errorf("%v", served)
		}
	})
}
