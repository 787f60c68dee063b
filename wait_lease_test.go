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

// acquire waits for a lease and tells when it came.
func acquire(t *testing.T, l *sluice.Limiter, take sluice.Take) <-chan *sluice.Lease {
	got := make(chan *sluice.Lease, 1)
	go func() {
		lease, _, err := l.WaitAcquire(t.Context(), take)
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	synctest.Wait()
	return got
}

// TestWaitingForAPlace: a place in flight that is released, committed or has
// expired goes to the next in line at once.
func TestWaitingForAPlace(t *testing.T) {
	for name, c := range map[string]struct {
		free func(context.Context, *sluice.Lease) error
		at   time.Duration
	}{
		"release": {func(ctx context.Context, le *sluice.Lease) error { return le.Release(ctx) }, 5 * time.Second},
		"commit":  {func(ctx context.Context, le *sluice.Lease) error { _, err := le.Commit(ctx); return err }, 5 * time.Second},
		"expiry":  {func(context.Context, *sluice.Lease) error { return nil }, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := open(t)
				start := time.Now()
				take := takeOf(demand("parallel", "1 concurrent", 1))
				take.Keep = 20 * time.Second
				first, _, err := l.Acquire(t.Context(), take)
				if err != nil {
					t.Fatal(err)
				}
				second, third := acquire(t, l, take), acquire(t, l, take)
				time.Sleep(5 * time.Second)
				if err := c.free(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				if le := <-second; since(start) != c.at {
					t.Errorf("the second came after %s", since(start))
				} else if err := le.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				if <-third; since(start) != c.at {
					t.Errorf("the third came after %s", since(start))
				}
			})
		})
	}
}

// TestWaitedLeaseLivesFromThen: the wait is not part of the lease's life, and
// the lease of a caller that gave up is none.
func TestWaitedLeaseLivesFromThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		one := demand("api", "1/10s burst 1", 1)
		mustTake(t, l, one)
		take := takeOf(one)
		take.Keep = 2 * time.Second
		lease := <-acquire(t, l, take) // after 10 s
		time.Sleep(1900 * time.Millisecond)
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("within its life: %v", err)
		}

		mustTake(t, l, one)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan *sluice.Lease)
		go func() {
			lease, _, _ := l.WaitAcquire(ctx, take)
			gone <- lease
		}()
		synctest.Wait()
		cancel()
		if lease := <-gone; lease != nil {
			t.Error("a lease without a take")
		}
		if n := remaining(t, l, one); n != 0 {
			t.Errorf("%s are left after the lease was called off", sluice.Thousandths(n))
		}
	})
}

// watched is a memory store that counts who watches it.
type watched struct {
	*memory.Store
	by int
}

func (w *watched) Watch(wake func(sluice.Key)) {
	w.by++
	w.Store.Watch(wake)
}

// TestRoomMadeElsewhere: a waiter hears of a release in another process.
func TestRoomMadeElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watched{Store: openStore(t)}
		here, there := sluice.New(store), sluice.New(store)
		start := time.Now()
		take := takeOf(demand("parallel", "1 concurrent", 1))
		first, _, err := there.Acquire(t.Context(), take)
		if err != nil {
			t.Fatal(err)
		}
		second := acquire(t, here, take)
		time.Sleep(3 * time.Second)
		if err := first.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if <-second; since(start) != 3*time.Second {
			t.Errorf("the second came after %s", since(start))
		}
		if store.by != 1 {
			t.Errorf("%d limiters watch, want the one that waits", store.by)
		}
	})
}

// late is a store that does what it is asked, and answers only when its caller
// has gone.
type late struct {
	*memory.Store
	gone   context.CancelFunc
	silent bool                                // it does not answer at all
	before func(context.Context, *sluice.Take) // what happens before the take does
}

func (s *late) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if s.gone == nil {
		return s.Store.Take(ctx, t, d)
	}
	s.gone()
	if s.before != nil {
		s.before(ctx, t)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.Store.Take(ctx, t, d); err != nil || !s.silent {
		return err
	}
	return sluice.ErrUnknown
}

// A caller that gives up while the store is being asked gets the answer: only it
// tells whether something was consumed. A lease that nobody would settle is
// released.
func TestAnswersToWhoHasGone(t *testing.T) {
	store := &late{Store: openStore(t)}
	l := sluice.New(store)
	take := takeOf(demand("day", "10/day", 1))
	ctx, cancel := context.WithCancel(t.Context())
	store.gone = cancel
	if d, err := l.Wait(ctx, take); err != nil || !d.Allowed {
		t.Errorf("a take that was served: %+v, %v", d, err)
	}

	place := takeOf(demand("parallel", "1 concurrent", 1))
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	store.gone = func() { <-ctx.Done() }
	if lease, _, err := l.WaitAcquire(ctx, place); lease == nil || err != nil {
		t.Fatalf("a lease that was granted: %v", err)
	} else if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for _, silent := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		store.gone, store.silent = cancel, silent
		if lease, _, err := l.WaitAcquire(ctx, place); lease != nil || err == nil {
			t.Errorf("a lease of who has gone: %v, %v", lease, err)
		}
		store.gone = nil
		lease, d, err := l.Acquire(t.Context(), place)
		if lease == nil || err != nil {
			t.Fatalf("the place is still taken: %+v, %v", d, err)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A release may overtake the take it is about. Then it is tried again.
func TestReleaseBeforeTheTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &late{Store: openStore(t), silent: true}
		l := sluice.New(store)
		place := takeOf(demand("parallel", "1 concurrent", 1))
		ctx, cancel := context.WithCancel(t.Context())
		var asked sluice.Take
		store.gone = cancel
		store.before = func(ctx context.Context, take *sluice.Take) {
			asked = *take
			<-ctx.Done() // no answer comes as long as anybody listens
		}
		if lease, _, err := l.WaitAcquire(ctx, place); lease != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, sluice.ErrUnknown) {
			t.Fatalf("%v, %v", lease, err)
		}
		var d sluice.Decision
		if err := store.Store.Take(t.Context(), &asked, &d); err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		time.Sleep(30 * time.Second)
		store.gone = nil
		if lease, d, err := l.Acquire(t.Context(), place); lease == nil || err != nil {
			t.Errorf("the place is still taken: %+v, %v", d, err)
		}
	})
}

// lost is a store that gives no answer, behind a breaker that denies then.
type lost struct {
	*memory.Store
	takes int
}

func (s *lost) Take(_ context.Context, t *sluice.Take, d *sluice.Decision) error {
	s.takes++
	*d = sluice.Decision{Source: sluice.Unknown, RetryAfter: time.Second, Demands: t.Demands, Results: make([]sluice.Result, len(t.Demands))}
	return nil
}

// What may have been served is not asked for again.
func TestUnknownEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lost{Store: openStore(t)}
		_, err := sluice.New(store).Wait(t.Context(), takeOf(demand("day", "10/day", 1)))
		var refused *sluice.RefusedError
		if !errors.As(err, &refused) || refused.Source != sluice.Unknown || store.takes != 1 {
			t.Errorf("asked %d times: %v", store.takes, err)
		}
	})
}
