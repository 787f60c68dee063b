package sluice

import (
	"context"
	"crypto/rand"
	"errors"
	"time"
)

// Lease is a take that can still be changed. It lives in the store, so any
// node can settle it by its ID. Exactly one of Commit and Release should end
// it; if neither comes, it expires: tokens stay spent, concurrency is freed,
// and later calls return [ErrLeaseClosed].
type Lease struct {
	ID      string
	limiter *Limiter
}

// Acquire takes at once and returns a lease. A refusal is not an error: the lease
// is nil and the decision says why. t.Keep is the lease's lifetime.
func (l *Limiter) Acquire(ctx context.Context, t Take) (*Lease, Decision, error) {
	var d Decision
	t.Lease = true
	anonymous := t.ID == ""
	err := l.Decide(ctx, &t, &d)
	return l.leaseOf(ctx, &t, &d, err, anonymous), d, err
}

// WaitAcquire is like Acquire but waits in line, as [Limiter.Wait] does. The
// lease's lifetime starts when the wait is over.
func (l *Limiter) WaitAcquire(ctx context.Context, t Take) (*Lease, Decision, error) {
	t.Lease = true
	anonymous := t.ID == ""
	d, err := l.wait(ctx, &t)
	return l.leaseOf(ctx, &t, &d, err, anonymous), d, err
}

// leaseOf is the lease that was granted, if any. One that may have been, and
// whose id nobody knows, is abandoned.
func (l *Limiter) leaseOf(ctx context.Context, t *Take, d *Decision, err error, anonymous bool) *Lease {
	if err == nil && d.Allowed && len(d.Demands) > 0 {
		return l.Lease(t.ID)
	}
	if anonymous && (d.Source == Unknown || errors.Is(err, ErrUnknown)) {
		l.Abandon(ctx, t.ID)
	}
	return nil
}

// Abandon releases a lease that nobody will settle and whose id nobody will
// repeat: its take has ended with an unknown outcome, so it may have been granted,
// and may yet be. Abandon tries again for a minute or so, also after ctx has
// ended, while the store does not answer or finds no such lease.
func (l *Limiter) Abandon(ctx context.Context, id string) {
	l.release(ctx, id, time.Second, 4*time.Second, 15*time.Second, 60*time.Second)
}

// release releases a lease, and tries again after some pauses if that fails.
func (l *Limiter) release(ctx context.Context, id string, again ...time.Duration) {
	ctx = context.WithoutCancel(ctx)
	limited, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	var d Decision
	err := l.store.Settle(limited, &Settlement{ID: id, Action: Release}, &d)
	l.lines.wakeAll(&d)
	if err != nil && !errors.Is(err, ErrClosed) && len(again) > 0 {
		time.AfterFunc(again[0], func() { l.release(ctx, id, again[1:]...) })
	}
}

// Lease returns the lease with that id, which another node may have acquired. It
// does not ask the store; a wrong id is reported when the lease is used.
func (l *Limiter) Lease(id string) *Lease { return &Lease{ID: id, limiter: l} }

// Adjust sets what the lease costs in the limits named, in whichever buckets
// it took them. It says the whole cost, not the difference, so it may be
// repeated. It may leave a debt.
func (le *Lease) Adjust(ctx context.Context, costs ...LimitCost) (Decision, error) {
	return le.limiter.Settle(ctx, Settlement{ID: le.ID, Costs: costs, Action: Adjust})
}

// Renew extends the lease to expire keep from now.
func (le *Lease) Renew(ctx context.Context, keep time.Duration) error {
	_, err := le.limiter.Settle(ctx, Settlement{ID: le.ID, Action: Renew, Keep: keep})
	return err
}

// Commit ends the lease: its tokens stay spent, adjusted to costs if any are
// given; its concurrency is freed.
func (le *Lease) Commit(ctx context.Context, costs ...LimitCost) (Decision, error) {
	return le.limiter.Settle(ctx, Settlement{ID: le.ID, Costs: costs, Action: Commit})
}

// Release ends the lease as if it had never been.
func (le *Lease) Release(ctx context.Context) error {
	_, err := le.limiter.Settle(ctx, Settlement{ID: le.ID, Action: Release})
	return err
}

// Settle changes or ends the lease of any node. The decision's results are
// the lease's buckets; their Consumed is what this call changed. The cost of a
// demand is what the lease costs in its bucket from now on.
func (l *Limiter) Settle(ctx context.Context, s Settlement) (Decision, error) {
	var d Decision
	if err := s.validate(); err != nil {
		return d, err
	}
	err := l.store.Settle(ctx, &s, &d)
	l.consumed(&d, err, false)
	l.lines.wakeAll(&d)
	return d, err
}

// Do runs work under a lease: committed if work succeeds, released if it
// fails or panics. A refusal is a [*RefusedError] and work does not run.
// While work runs it may adjust, and it may settle the lease itself.
func (l *Limiter) Do(ctx context.Context, t Take, work func(context.Context, *Lease) error) error {
	lease, d, err := l.Acquire(ctx, t)
	if err != nil {
		return err
	}
	if lease == nil {
		return d.Err()
	}
	settleCtx := context.WithoutCancel(ctx)
	done := false
	defer func() {
		if !done { // work panicked, or called runtime.Goexit
			lease.Release(settleCtx) //nolint:errcheck // the panic matters more, and the lease expires by itself
		}
	}()
	workErr := work(ctx, lease)
	done = true
	if workErr != nil {
		err = lease.Release(settleCtx)
	} else {
		_, err = lease.Commit(settleCtx)
	}
	if errors.Is(err, ErrLeaseClosed) {
		err = nil // settled by work itself
	}
	return errors.Join(workErr, err)
}

// newID is an id that nobody can guess.
func newID() string { return rand.Text() }
