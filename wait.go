package sluice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Priority orders callers that wait for the same bucket.
type Priority int8

const (
	// Normal is the default.
	Normal Priority = 0
	// Interactive work, for which a person is waiting, is served first.
	Interactive Priority = 1
	// Batch work is served last.
	Batch Priority = -1
)

// patience is for how long a caller lets later ones of the highest priority
// pass. Rank is arrival plus patience, so whoever comes later than that after
// it is served after it, however many there are.
func (p Priority) patience() time.Duration {
	switch {
	case p >= Interactive:
		return 0
	case p <= Batch:
		return 30 * time.Second
	}
	return 10 * time.Second
}

const (
	// renewTicket is how often a waiting caller asks again even if nothing
	// tells it to: so that its ticket does not lapse, and so that it is not
	// kept waiting by a lost wake-up.
	renewTicket = 2 * time.Second

	// heldUp is for how long a caller sleeps that a window or a place in flight
	// has room for but for who is before it in line: nothing tells when those
	// have passed.
	heldUp = 250 * time.Millisecond

	// leaveWithin is how long taking a ticket out may take; it lapses anyway.
	leaveWithin = 250 * time.Millisecond

	// tellWithin is how long it may take to find out what a caller that gave up
	// is told.
	tellWithin = time.Second

	// answerWithin is how long the store may take to answer a caller that gave
	// up while it was asked, since without an answer nobody knows whether
	// something was consumed.
	answerWithin = 5 * time.Second

	// leastSleep keeps a caller from asking in a tight loop.
	leastSleep = 100 * time.Microsecond
)

// Wait takes, waiting in line until it can. Callers that want the same bucket
// are served by priority, whichever process they are in, and those of one
// process by arrival; a small cost does not slip past a large one, and a take
// that does not wait comes after those who do. The first in line of each process
// leaves a [Ticket] in the store, sleeps until its turn should have come, and is
// woken when room is made before. Until the store knows of the next, a round
// trip later, others may pass. Nothing is consumed until then, so giving up costs
// nobody anything.
//
// Limits may change while a caller waits; see [Take.Resolve].
//
// The error is a *[RefusedError] if it could wait for ever. If ctx ended, it
// wraps ctx's error and a *[RefusedError] that says what is in the way then, or
// [ErrUnavailable] if the store does not say within a second; nothing is
// consumed. If ctx ends while the store is being asked, Wait
// returns what the store answers, within 5 s; only if no answer comes may
// something have been consumed, and the error is [ErrUnknown].
func (l *Limiter) Wait(ctx context.Context, t Take) (Decision, error) {
	return l.wait(ctx, &t)
}

func (l *Limiter) wait(ctx context.Context, t *Take) (Decision, error) {
	var d Decision
	t.Ticket = Ticket{} // only the first in line has one
	resolve := t.Resolve
	t.Resolve = nil // a store may keep t
	if err := t.normalizeWait(); err != nil {
		return d, err
	}
	if err := ctx.Err(); err != nil {
		return d, err
	}
	w := newWaiter(t.Priority)
	busy := l.lines.busy(t)
	if busy == nil || t.ID != "" || hopeless(t) {
		// Who repeats a take gets its answer, and who can never pass is told so,
		// whoever else waits.
		if over, err := l.attempt(ctx, t, &d); over {
			return d, err
		}
		busy = refusing(&d)
	}
	l.watch()
	l.lines.stand(w, busy)
	defer l.lines.stand(w, nil)
	d, err := l.lead(ctx, t, w, resolve)
	if l.observer != nil {
		l.observer.Waited(t, time.Since(w.arrived), err == nil)
	}
	return d, err
}

// attempt asks the store, and reports whether that is the end of waiting. Only
// then is it a decision for the observer. What is not known to have been refused
// is not asked again.
func (l *Limiter) attempt(ctx context.Context, t *Take, d *Decision) (over bool, err error) {
	start := time.Now()
	asking, answered := outlast(ctx, answerWithin)
	err = l.store.Take(asking, t, d)
	answered()
	if err == nil && !d.Allowed && d.RetryAfter != Never && d.Source != Unknown {
		return false, nil
	}
	gone := ctx.Err()
	if err == nil && d.Allowed && t.Lease && errors.Is(gone, context.Canceled) {
		l.release(ctx, t.ID) // nobody would ever settle it
		return true, gone
	}
	l.decided(t, d, err, time.Since(start))
	if err == nil {
		return true, d.Err()
	}
	if gone != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknown) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err) // nobody waited for the answer any longer
	}
	if t.Lease && gone != nil && errors.Is(err, ErrUnknown) {
		l.release(ctx, t.ID)
	}
	return true, err
}

// outlast is ctx that ends so much later. The caller says when it needs it no
// longer.
func outlast(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(by, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// hopeless reports whether t can never pass.
func hopeless(t *Take) bool {
	return slices.ContainsFunc(t.Demands, func(d Demand) bool { return !d.Shadow && d.Charge().Thousandths() > d.Limit.Capacity().Thousandths() })
}

// watch starts hearing of room made by other processes, once somebody waits.
func (l *Limiter) watch() {
	if w, ok := l.store.(Watcher); ok {
		l.watching.Do(func() { w.Watch(l.lines.wake) })
	}
}

// normalizeWait is normalize for a take that waits.
func (t *Take) normalizeWait() error {
	if t.Peek {
		return badField("take.peek", true, "a peek cannot wait")
	}
	if i := slices.IndexFunc(t.Demands, func(d Demand) bool { return d.CountRefused }); i >= 0 {
		return badField(fmt.Sprintf("take.demands[%d].countRefused", i), true, "waiting would count each attempt")
	}
	return t.normalize()
}

// lead asks whenever w acts and has reason to.
func (l *Limiter) lead(ctx context.Context, t *Take, w *waiter, resolve resolveFunc) (d Decision, err error) {
	t.Ticket.ID = HoldID{Node: l.node, Seq: l.tickets.Add(1)}
	asked := false
	for pause := time.Duration(0); ; {
		if err := l.lines.turn(ctx, w, pause); err != nil {
			l.lines.stand(w, nil) // whoever is next need not wait for the rest
			if asked {
				l.leave(ctx, t)
			}
			return l.gaveUp(ctx, t, resolve)
		}
		if limited, err := l.resolve(ctx, t, resolve); !limited {
			return Decision{Allowed: err == nil}, err
		}
		t.Ticket.Rank = t.Priority.patience() - time.Since(w.arrived)
		asked = true
		if over, err := l.attempt(ctx, t, &d); over {
			if err != nil && d.RetryAfter != Never || d.Repeated || d.Source != FromStore {
				l.leave(ctx, t) // the store has not taken it out
			}
			return d, err
		}
		l.lines.stand(w, refusing(&d))
		pause = max(min(shortest(&d), renewTicket), leastSleep)
	}
}

type resolveFunc = func(context.Context, *Take) error

// resolve finds what t demands by now, and reports whether anything still limits
// it. Its ticket leaves the buckets that it wants no longer.
func (l *Limiter) resolve(ctx context.Context, t *Take, resolve resolveFunc) (limited bool, err error) {
	if resolve == nil {
		return true, nil
	}
	before := *t
	if err = resolve(ctx, t); err == nil && len(t.Demands) > 0 {
		err = t.normalizeWait()
	}
	if err != nil || !slices.EqualFunc(before.Demands, t.Demands, func(a, b Demand) bool { return a.Key == b.Key }) {
		l.leave(ctx, &before)
	}
	return err == nil && len(t.Demands) > 0, err
}

// leave takes the ticket of a caller that gave up out of the store.
func (l *Limiter) leave(ctx context.Context, t *Take) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveWithin)
	defer cancel()
	tickets := make([]HoldReturn, len(t.Demands))
	for i := range t.Demands {
		tickets[i] = HoldReturn{Key: t.Demands[i].Key, Limit: t.Demands[i].Limit, ID: t.Ticket.ID}
	}
	l.store.Return(ctx, tickets) //nolint:errcheck // at worst it lapses
}

// gaveUp is what a caller is told whose ctx ended: what is in the way now. What
// it was told while it waited may be long untrue, since others have been served,
// room was made or limits have changed.
func (l *Limiter) gaveUp(ctx context.Context, t *Take, resolve resolveFunc) (d Decision, err error) {
	over := ctx.Err()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellWithin)
	defer cancel()
	if limited, err := l.resolve(ctx, t, resolve); !limited {
		if err != nil {
			err = fmt.Errorf("gave up waiting: %w: %w", over, err)
		}
		return Decision{Allowed: err == nil}, err
	}
	peek := Take{ID: t.ID, Asked: t.Asked, Demands: t.Demands, UpTo: t.UpTo, Tier: t.Tier, Peek: true}
	if err := l.store.Take(ctx, &peek, &d); err != nil {
		return Decision{}, fmt.Errorf("gave up waiting: %w: %w: %v", over, ErrUnavailable, err)
	}
	if d.Repeated { // it was taken meanwhile, under the same ID
		l.decided(t, &d, nil, 0)
		return d, d.Err()
	}
	if d.Allowed { // there is room just now
		if d.Allowed, d.RetryAfter = false, time.Microsecond; d.Source != FromStore {
			d.RetryAfter = time.Second // a guess: the store may see it otherwise
		}
	}
	l.decided(t, &d, nil, 0)
	return d, fmt.Errorf("gave up waiting: %w: %w", over, d.Err())
}

// refusing are the buckets that had no room.
func refusing(d *Decision) (keys []Key) {
	for i := range d.Results {
		if !d.Results[i].Fits && !d.Demands[i].Shadow {
			keys = append(keys, d.Demands[i].Key)
		}
	}
	if len(keys) == 0 { // the store does not say
		for i := range d.Demands {
			keys = append(keys, d.Demands[i].Key)
		}
	}
	return keys
}

// shortest is how long it takes until the first of the refusing buckets has
// room if nobody makes any: then the take asks again, if only to let others
// have what it cannot use yet for want of the rest.
func shortest(d *Decision) time.Duration {
	wait := Never
	for i := range d.Results {
		if r := &d.Results[i]; !r.Fits && !d.Demands[i].Shadow {
			wait = min(wait, max(r.RetryAfter, r.LatestAfter))
			if r.Held && d.Demands[i].Limit.Algorithm != TokenBucket {
				wait = min(wait, heldUp)
			}
		}
	}
	return wait
}
