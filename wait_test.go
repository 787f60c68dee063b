package sluice_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	done  chan served
	errs  chan error
	count int
}

type service struct {
	who string
	at  time.Duration
}

// served is also what was left of the first limit then: callers that are served
// at the same moment may say so in another order.
type served struct {
	service
	left int64
}

func newCrowd(t *testing.T) *crowd {
	return &crowd{t: t, start: time.Now(), done: make(chan served, 10_000), errs: make(chan error, 10_000)}
}

// arrive lets a caller wait, and returns once it stands in line or was served.
func (c *crowd) arrive(l *sluice.Limiter, who string, take sluice.Take) {
	c.count++
	go func() {
		d, err := l.Wait(c.t.Context(), take)
		if err != nil {
			c.errs <- err
			return
		}
		c.done <- served{service{who, since(c.start)}, d.Results[0].Remaining.Thousandths()}
	}()
	synctest.Wait()
}

// all waits until everybody was served, and tells in which order.
func (c *crowd) all() (order []service) {
	c.t.Helper()
	var all []served
	for range c.count {
		select {
		case s := <-c.done:
			all = append(all, s)
		case err := <-c.errs:
			c.t.Fatalf("a caller failed: %v", err)
		}
	}
	slices.SortStableFunc(all, func(a, b served) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.left, a.left)) })
	for _, s := range all {
		order = append(order, s.service)
	}
	return order
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

// TestFiftyCallersOfWindows: the same crowd where all room comes at once.
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

// TestWaitEndsWithItsDeadline: room may be made at any moment, so a caller waits
// for it until its deadline, and is then told what it waited for; nothing is
// consumed. Only who can never pass is told at once.
func TestWaitEndsWithItsDeadline(t *testing.T) {
	for _, limit := range []string{"1/s burst 5", "5/minute fixed", "5/minute sliding"} {
		synctest.Test(t, func(t *testing.T) {
			l := open(t)
			start := time.Now()
			all, more := demand("api", limit, 5), demand("api", limit, 6)
			mustTake(t, l, all)

			var refused *sluice.RefusedError
			if _, err := l.Wait(t.Context(), takeOf(more)); !errors.As(err, &refused) || refused.RetryAfter != sluice.Never {
				t.Errorf("%s: %v", limit, err)
			}
			if since(start) != 0 {
				t.Errorf("%s: never after %s", limit, since(start))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			d, err := l.Wait(ctx, takeOf(all))
			if !errors.As(err, &refused) || !errors.Is(err, context.DeadlineExceeded) || d.Allowed ||
				!strings.HasPrefix(err.Error(), "gave up waiting: context deadline exceeded: refused by ann/api/api") {
				t.Errorf("%s: %v", limit, err)
			}
			if since(start) != 4*time.Second {
				t.Errorf("%s: gave up after %s", limit, since(start))
			}
			if page, err := l.List(t.Context(), sluice.Query{}); err != nil || page.Buckets[0].Tickets != 0 || page.Buckets[0].Consumed.Thousandths() != 5*sluice.Token {
				t.Errorf("%s: it left %+v, %v", limit, page.Buckets, err)
			}
		})
	}
}

// TestWaitingForARefund: a day's quota that is used up may be refunded, and a
// place in flight freed, long before it would come back by itself.
func TestWaitingForARefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		day := demand("api", "1/day UTC", 1)
		mustTake(t, l, day)
		lease, _, err := l.Acquire(t.Context(), sluice.Take{Demands: []sluice.Demand{demand("parallel", "1 concurrent", 1)}, Keep: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		start, done := time.Now(), make(chan error, 2)
		go func() {
			_, err := l.Wait(ctx, takeOf(day))
			done <- err
		}()
		go func() {
			_, _, err := l.WaitAcquire(ctx, takeOf(demand("parallel", "1 concurrent", 1)))
			done <- err
		}()
		time.Sleep(time.Second)
		if err := lease.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		day.Cost = sluice.Thousandths(-sluice.Token)
		if _, err := l.Adjust(t.Context(), day); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-done; err != nil || since(start) != time.Second {
				t.Errorf("after %s: %v", since(start), err)
			}
		}
	})
}

func TestWaitWithoutNeed(t *testing.T) {
	l := open(t)
	one := demand("api", "10/hour", 1)
	if d, err := l.Wait(t.Context(), takeOf(one)); err != nil || !d.Allowed || d.Results[0].Remaining.Thousandths() != 9*sluice.Token {
		t.Errorf("%+v, %v", d, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Wait(ctx, takeOf(one)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if n := remaining(t, l, one); sluice.Thousandths(n).Whole() != 9 {
		t.Errorf("%s are left", sluice.Thousandths(n))
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
			refund.Cost = sluice.Thousandths(-sluice.Token)
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

// TestNothingIsTakenAhead: a take that waits for a token bucket counts in a
// window when it acts, not when it began to wait.
func TestNothingIsTakenAhead(t *testing.T) {
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

// TestBehindOthersInLine: who repeats a take gets its answer though others wait,
// who can never pass is told so at once, and who was never first is told what
// it waited for.
func TestBehindOthersInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		one := demand("api", "1/minute burst 5", 5)
		first := takeOf(one)
		first.ID = "first"
		if d, err := l.Wait(t.Context(), first); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		waiting := wait(t, l, takeOf(one))
		start := time.Now()
		if d, err := l.Wait(t.Context(), first); err != nil || !d.Repeated {
			t.Errorf("repeated: %+v, %v", d, err)
		}
		var refused *sluice.RefusedError
		if _, err := l.Wait(t.Context(), takeOf(demand("api", "1/minute burst 5", 6))); !errors.As(err, &refused) || refused.RetryAfter != sluice.Never {
			t.Errorf("never: %v", err)
		}
		if since(start) != 0 {
			t.Errorf("they waited for %s", since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Wait(ctx, takeOf(one)); !errors.As(err, &refused) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("second in line: %v", err)
		}
		waiting.callOff(t)
	})
}
