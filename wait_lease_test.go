package sluice_test

import (
	"context"
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
			t.Errorf("%s are left after the lease was called off", n)
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

// answersLate grants what is asked, but its caller has gone before it says so.
type answersLate struct {
	*memory.Store
	gone context.CancelFunc
}

func (a *answersLate) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	err := a.Store.Take(ctx, t, d)
	if t.Lease && err == nil && d.Allowed && a.gone != nil {
		a.gone()
		return sluice.ErrUnknown
	}
	return err
}

// TestLeaseOfWhoHasGone: a lease that was granted while its caller gave up is
// released, for nobody knows of it.
func TestLeaseOfWhoHasGone(t *testing.T) {
	store := &answersLate{Store: openStore(t)}
	l := sluice.New(store)
	ctx, cancel := context.WithCancel(t.Context())
	store.gone = cancel
	take := takeOf(demand("parallel", "1 concurrent", 1))
	if lease, _, err := l.WaitAcquire(ctx, take); lease != nil || err == nil {
		t.Fatalf("%v, %v", lease, err)
	}
	store.gone = nil
	if lease, d, err := l.Acquire(t.Context(), take); lease == nil || err != nil {
		t.Errorf("the place is still taken: %+v, %v", d, err)
	}
}
