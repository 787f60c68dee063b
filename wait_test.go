package sluice_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
)

// crowd starts callers one after the other and notes who was served when.
type crowd struct {
	t     *testing.T
	start time.Time
	done  chan service // in order of service
	errs  chan error
	count int
}

type service struct {
	who string
	at  time.Duration
}

func newCrowd(t *testing.T) *crowd {
	return &crowd{t: t, start: time.Now(), done: make(chan service, 10_000), errs: make(chan error, 10_000)}
}

// arrive lets a caller wait, and returns once it stands in line or was served.
func (c *crowd) arrive(l *sluice.Limiter, who string, take sluice.Take) {
	c.count++
	go func() {
		if _, err := l.Wait(c.t.Context(), take); err != nil {
			c.errs <- err
			return
		}
		c.done <- service{who, since(c.start)}
	}()
	synctest.Wait()
}

// all waits until everybody was served, and tells in which order.
func (c *crowd) all() (served []service) {
	c.t.Helper()
	for range c.count {
		select {
		case s := <-c.done:
			served = append(served, s)
		case err := <-c.errs:
			c.t.Fatalf("a caller failed: %v", err)
		}
	}
	return served
}

func takeOf(demands ...sluice.Demand) sluice.Take { return sluice.Take{Demands: demands} }

// TestFiftyCallers: on 10/s burst 20, twenty are served at once and the rest
// in the order they came, one every tenth of a second; nobody fails.
func TestFiftyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		c := newCrowd(t)
		for i := range 50 {
			c.arrive(l, string(rune('A'+i)), takeOf(demand("api", "10/s burst 20", 1)))
		}
		for i, s := range c.all() {
			want := service{string(rune('A' + i)), max(0, time.Duration(i-19)) * 100 * time.Millisecond}
			if s != want {
				t.Errorf("the %dth was %+v, want %+v", i+1, s, want)
			}
		}
		if d := since(c.start); d != 3*time.Second {
			t.Errorf("all were served after %s", d)
		}
	})
}

// TestFiftyCallersOfWindows: the same crowd where nothing can be taken ahead.
func TestFiftyCallersOfWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		c := newCrowd(t)
		for i := range 50 {
			c.arrive(l, string(rune('A'+i)), takeOf(demand("api", "20/s fixed", 1)))
		}
		for i, s := range c.all() {
			want := service{string(rune('A' + i)), time.Duration(i/20) * time.Second}
			if s != want {
				t.Errorf("the %dth was %+v, want %+v", i+1, s, want)
			}
		}
	})
}

// TestLargeCostIsNotStarved: small takes that come later, waiting or not, do
// not slip past a large one.
func TestLargeCostIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		one, ten := demand("api", "1/s burst 10", 1), demand("api", "1/s burst 10", 10)
		mustTake(t, l, ten)
		c := newCrowd(t)
		c.arrive(l, "large", takeOf(ten))
		for range 5 {
			time.Sleep(time.Second)
			c.arrive(l, "small", takeOf(one))
			if d, err := l.Take(t.Context(), one); err != nil || d.Allowed {
				t.Errorf("a small take slipped past: %+v, %v", d, err)
			}
		}
		served := c.all()
		if served[0] != (service{"large", 10 * time.Second}) || served[1].at != 11*time.Second {
			t.Errorf("%v", served)
		}
	})
}

// TestWaitRefusesEarly: who cannot be served in time, or ever, is told at
// once, and nothing is consumed.
func TestWaitRefusesEarly(t *testing.T) {
	for _, limit := range []string{"1/s burst 5", "5/minute fixed", "5/minute sliding"} {
		synctest.Test(t, func(t *testing.T) {
			l := open(t)
			start := time.Now()
			all, more := demand("api", limit, 5), demand("api", limit, 6)
			mustTake(t, l, all)

			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			var refused *sluice.RefusedError
			d, err := l.Wait(ctx, takeOf(all))
			if !errors.As(err, &refused) || d.Allowed || !strings.HasPrefix(err.Error(), "waiting would pass the deadline: refused by ann/api/api") {
				t.Errorf("%s: %v", limit, err)
			}
			if _, err = l.Wait(t.Context(), takeOf(more)); !errors.As(err, &refused) || refused.RetryAfter != sluice.Never {
				t.Errorf("%s: %v", limit, err)
			}
			if since(start) != 0 || remaining(t, l, all) != 0 {
				t.Errorf("%s: after %s %s are left", limit, since(start), remaining(t, l, all))
			}
		})
	}
}

// TestWaitRefusesEarlyInLine: the deadline is looked at again by whoever comes
// to be first.
func TestWaitRefusesEarlyInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		one := demand("api", "1/s burst 1", 1)
		mustTake(t, l, one)
		c := newCrowd(t)
		c.arrive(l, "first", takeOf(one))

		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		_, err := l.Wait(ctx, takeOf(one))
		var refused *sluice.RefusedError
		if !errors.As(err, &refused) || since(c.start) != time.Second {
			t.Errorf("after %s: %v", since(c.start), err)
		}
		c.all()
		if d, err := l.Take(t.Context(), one); err != nil || d.Allowed || d.RetryAfter != time.Second {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestWaitWithoutNeed(t *testing.T) {
	l := open(t)
	one := demand("api", "10/hour", 1)
	if d, err := l.Wait(t.Context(), takeOf(one)); err != nil || !d.Allowed || d.Results[0].Remaining != 9*sluice.Token {
		t.Errorf("%+v, %v", d, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Wait(ctx, takeOf(one)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n := remaining(t, l, one); n.Whole() != 9 {
		t.Errorf("%s are left", n)
	}
}

func TestWaitOnAClosedStore(t *testing.T) {
	store := openStore(t)
	l := sluice.New(store)
	store.Close()
	if _, err := l.Wait(t.Context(), takeOf(demand("api", "1/s", 1))); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// TestRoomWakesTheFirstInLine: room that is made by other than time is used
// at once.
func TestRoomWakesTheFirstInLine(t *testing.T) {
	one := demand("api", "1/hour sliding", 1)
	for name, makeRoom := range map[string]func(context.Context, *sluice.Limiter) error{
		"refund": func(ctx context.Context, l *sluice.Limiter) error {
			refund := one
			refund.Cost = -sluice.Token
			_, err := l.Adjust(ctx, refund)
			return err
		},
		"reset": func(ctx context.Context, l *sluice.Limiter) error { return l.Reset(ctx, one.Key) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t)
				mustTake(t, l, one)
				c := newCrowd(t)
				c.arrive(l, "waiting", takeOf(one))
				time.Sleep(time.Minute)
				if err := makeRoom(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				if served := c.all(); served[0].at != time.Minute {
					t.Errorf("%v", served)
				}
			})
		})
	}
}

// TestWindowsAreNotTakenAhead: a take that waits for a token bucket counts in
// a window when it acts, not when it began to wait.
func TestWindowsAreNotTakenAhead(t *testing.T) {
	for _, limit := range []string{"1/s sliding", "1/s fixed"} {
		synctest.Test(t, func(t *testing.T) {
			l := open(t)
			slow, window := demand("slow", "1/10s burst 1", 1), demand("window", limit, 1)
			mustTake(t, l, slow)
			c := newCrowd(t)
			c.arrive(l, "both", takeOf(slow, window))
			if served := c.all(); served[0].at != 10*time.Second {
				t.Errorf("%s: %v", limit, served)
			}
			if d, err := l.Take(t.Context(), window); err != nil || d.Allowed {
				t.Errorf("%s: twice the window at one moment: %v", limit, err)
			}
		})
	}
}

// TestManyBucketsWithoutDeadlock: callers that want overlapping sets of
// buckets all get there, and the limits hold.
func TestManyBucketsWithoutDeadlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		limits := []sluice.Demand{
			demand("a", "5/s burst 3", 1), demand("b", "7/s burst 1", 1),
			demand("c", "10/s sliding", 1), demand("d", "9/s fixed", 1),
		}
		c := newCrowd(t)
		for i := range 300 {
			var ds []sluice.Demand
			for j := range limits {
				if set := 1 + i%15; set>>j&1 == 1 { // every set of them in turn
					ds = append(ds, limits[(i+j)%len(limits)])
				}
			}
			take := takeOf(ds...)
			take.Priority = sluice.Priority(i%3 - 1)
			c.arrive(l, "", take)
		}
		c.all()
		if d := since(c.start); d > time.Minute {
			t.Errorf("300 callers took %s", d)
		}
	})
}
