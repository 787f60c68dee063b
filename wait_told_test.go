package sluice_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

// told is what a caller was told after it had waited.
type told struct {
	d   sluice.Decision
	err error
}

// patient lets a caller wait for so long.
func patient(t *testing.T, l *sluice.Limiter, take sluice.Take, p sluice.Priority, patience time.Duration) <-chan told {
	take.Priority = p
	result := make(chan told, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if take.Lease {
			_, d, err := l.WaitAcquire(ctx, take)
			result <- told{d, err}
			return
		}
		d, err := l.Wait(ctx, take)
		result <- told{d, err}
	}()
	synctest.Wait()
	return result
}

// TestWhoGivesUpIsToldWhatIsInTheWayNow: others were served while it waited, so
// what it was told on its arrival is not true any more. That goes for a take with
// an id and for one without, which was never first in line.
func TestWhoGivesUpIsToldWhatIsInTheWayNow(t *testing.T) {
	one := demand("api", "1/4s burst 1", 1)
	for name, take := range map[string]sluice.Take{
		"plain": takeOf(one),
		"id":    {Demands: []sluice.Demand{one}, ID: "once"},
		"lease": {Demands: []sluice.Demand{one}, Lease: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t)
				mustTake(t, l, one)
				batch := patient(t, l, take, sluice.Batch, 6*time.Second)
				interactive := patient(t, l, takeOf(one), sluice.Interactive, 20*time.Second)
				normal := patient(t, l, takeOf(one), sluice.Normal, 6500*time.Millisecond)
				if r := <-interactive; r.err != nil {
					t.Fatal(r.err)
				}
				got := <-batch
				refused, ok := errors.AsType[*sluice.RefusedError](got.err)
				if !ok || !errors.Is(got.err, context.DeadlineExceeded) {
					t.Fatal(got.err)
				}
				// 2 s for who is before it in line, and 4 s for itself.
				if r := got.d.Results[0]; refused.RetryAfter != 6*time.Second || r.ResetAfter != 2*time.Second || r.Remaining != sluice.Thousandths(500) {
					t.Errorf("it is told %s, %+v", refused.RetryAfter, r)
				}
				got = <-normal
				if refused, ok = errors.AsType[*sluice.RefusedError](got.err); !ok || refused.RetryAfter != 1500*time.Millisecond {
					t.Fatal(got.err)
				}
				time.Sleep(refused.RetryAfter)
				mustTake(t, l, one)
			})
		})
	}
}

// The same for a place in flight that somebody else got.
func TestWhoGivesUpIsToldOfTheNextHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		take := takeOf(demand("parallel", "1 concurrent", 1))
		take.Keep = 5 * time.Second
		first, _, err := l.Acquire(t.Context(), take)
		if err != nil {
			t.Fatal(err)
		}
		take.Keep, take.Lease = time.Minute, true
		batch := patient(t, l, take, sluice.Batch, 6*time.Second)
		interactive := patient(t, l, take, sluice.Interactive, 20*time.Second)
		time.Sleep(time.Second)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-interactive
		got := <-batch
		if r := got.d.Results[0]; r.RetryAfter != sluice.ConcurrencyRetry || r.LatestAfter != 55*time.Second || r.ResetAfter != 55*time.Second {
			t.Errorf("it is told %+v, %v", r, got.err)
		}
	})
}

// roomy is a store that sees room for those who look.
type roomy struct {
	*memory.Store
	source sluice.Source
}

func (s *roomy) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if t.Peek {
		*d = sluice.Decision{Allowed: true, Source: s.source, Demands: t.Demands, Results: []sluice.Result{{Fits: true}}}
		return nil
	}
	return s.Store.Take(ctx, t, d)
}

// Whoever gives up at the moment when there is room may come back at once. What
// is said without the store is no more than a guess.
func TestWhoGivesUpWhenThereIsRoom(t *testing.T) {
	for source, want := range map[sluice.Source]time.Duration{sluice.FromStore: time.Microsecond, sluice.Degraded: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := sluice.New(&roomy{openStore(t), source})
			one := demand("api", "1/minute burst 1", 1)
			mustTake(t, l, one)
			got := <-patient(t, l, takeOf(one), sluice.Normal, 2*time.Second)
			if refused, ok := errors.AsType[*sluice.RefusedError](got.err); !ok || refused.RetryAfter != want || got.d.Allowed {
				t.Errorf("%s: %+v, %v", source, got.d, got.err)
			}
		})
	}
}

// silent is a store that does not answer those who look.
type silent struct{ *memory.Store }

func (s *silent) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if t.Peek {
		<-ctx.Done()
		return sluice.ErrUnknown
	}
	return s.Store.Take(ctx, t, d)
}

// What is not known is not told, and nothing has been consumed.
func TestWhoGivesUpDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sluice.New(&silent{openStore(t)})
		one := demand("api", "1/minute burst 1", 1)
		mustTake(t, l, one)
		start := time.Now()
		got := <-patient(t, l, takeOf(one), sluice.Normal, 2*time.Second)
		if !errors.Is(got.err, context.DeadlineExceeded) || !errors.Is(got.err, sluice.ErrUnavailable) || errors.Is(got.err, sluice.ErrUnknown) || len(got.d.Results) > 0 {
			t.Errorf("%+v, %v", got.d, got.err)
		}
		if since(start) != 3*time.Second {
			t.Errorf("it is told after %s", since(start))
		}
	})
}

// changing is a take whose limits change while it waits.
type changing struct {
	sluice.Take
	mu  sync.Mutex // guards both below
	now []sluice.Demand
	err error
}

func (c *changing) change(how func(*changing)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how(c)
}

func newChanging(d sluice.Demand) *changing {
	c := &changing{Take: takeOf(d), now: []sluice.Demand{d}}
	c.Resolve = func(_ context.Context, t *sluice.Take) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		t.Demands = append([]sluice.Demand(nil), c.now...)
		return c.err
	}
	return c
}

// TestLimitsChangeWhileSomebodyWaits: whoever waits is judged by the limits of
// the moment, from two seconds after they change.
func TestLimitsChangeWhileSomebodyWaits(t *testing.T) {
	var errGone = errors.New("gone")
	slow := demand("api", "1/h burst 1", 1)
	for name, c := range map[string]struct {
		before sluice.Demand
		change func(*changing)
		check  func(told) bool
		at     time.Duration
	}{
		"raised": {slow, func(c *changing) { c.now[0] = demand("api", "100/s", 1) },
			func(r told) bool { return r.err == nil && r.d.Demands[0].Limit == sluice.MustParse("100/s") }, 2 * time.Second},
		"lowered": {demand("api", "1/s burst 25", 25), func(c *changing) { c.now[0].Limit = slow.Limit },
			func(r told) bool { return r.d.RetryAfter == sluice.Never && !r.d.Allowed && r.err != nil }, 2 * time.Second},
		"another limit": {slow, func(c *changing) { c.now[0] = demand("other", "1/s", 1) },
			func(r told) bool { return r.err == nil && r.d.Demands[0].Key.Limit == "other" }, 2 * time.Second},
		"unlimited": {slow, func(c *changing) { c.now = nil },
			func(r told) bool { return r.err == nil && r.d.Allowed && len(r.d.Results) == 0 }, 2 * time.Second},
		"nobody knows": {slow, func(c *changing) { c.err = errGone },
			func(r told) bool { return errors.Is(r.err, errGone) && !r.d.Allowed }, 2 * time.Second},
		"not for waiting": {slow, func(c *changing) { c.now[0].Limit = sluice.MustParse("1 concurrent") },
			func(r told) bool { _, ok := errors.AsType[*sluice.FieldError](r.err); return ok }, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t)
				start := time.Now()
				mustTake(t, l, c.before)
				take := newChanging(c.before)
				result := patient(t, l, take.Take, sluice.Normal, 40*time.Second)
				time.Sleep(time.Second)
				take.change(c.change)
				if got := <-result; !c.check(got) || since(start) != c.at {
					t.Errorf("after %s: %+v, %v", since(start), got.d, got.err)
				}
				page, err := l.List(t.Context(), sluice.Query{})
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range page.Buckets {
					if b.Tickets != 0 {
						t.Errorf("%d tickets are left for %s", b.Tickets, b.Key)
					}
				}
			})
		})
	}
}

// A limit that changed just before the end: what is told is of the new one.
func TestLimitsChangeBeforeSomebodyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		slow := demand("api", "1/h burst 1", 1)
		mustTake(t, l, slow)
		take := newChanging(slow)
		result := patient(t, l, take.Take, sluice.Normal, 3*time.Second)
		time.Sleep(2500 * time.Millisecond)
		take.change(func(c *changing) { c.now[0] = demand("api", "1/10s burst 1", 1) })
		if got := <-result; got.d.RetryAfter > 10*time.Second || got.d.Demands[0].Limit != sluice.MustParse("1/10s burst 1") {
			t.Errorf("%+v, %v", got.d, got.err)
		}
	})
}
