package sluice

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Priority orders callers that wait for the same bucket.
type Priority int8

const (
	// Normal is the default.
	Normal Priority = 0
	// Interactive work overtakes the others: somebody is watching.
	Interactive Priority = 1
	// Batch work lets the others pass.
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

// maxReserve is how far ahead a waiting caller without a deadline takes
// tokens that are not there yet.
const maxReserve = 24 * time.Hour

// Wait takes, waiting in line until it can. Callers of one limiter that want
// the same bucket are served by priority, then by arrival; a small cost does
// not slip past a large one. Nobody polls: the first in line takes its tokens
// before they are due, where all its limits are token buckets, and sleeps
// until then, so that callers in other processes come after it; for other
// limits it sleeps until there could be room.
//
// An error says why it gave up: a *[RefusedError] if it would have to wait
// past ctx's deadline, or for ever, or ctx's own error. Then nothing is
// consumed; only if ctx ends in the middle of asking the store, or that fails,
// may it have been, and the error is [ErrUnknown].
func (l *Limiter) Wait(ctx context.Context, t Take) (Decision, error) {
	return l.wait(ctx, &t)
}

func (l *Limiter) wait(ctx context.Context, t *Take) (Decision, error) {
	var d Decision
	if t.Peek {
		return d, fieldError("take.peek", true, "a peek cannot wait")
	}
	if i := slices.IndexFunc(t.Demands, func(d Demand) bool { return d.CountRefused }); i >= 0 {
		return d, fieldError(fmt.Sprintf("take.demands[%d].countRefused", i), true, "waiting would count each attempt")
	}
	t.Within = 0 // only the first in line takes ahead
	if t.ID != "" {
		t.Lease = true // so that giving up undoes it, and its id is free again
	}
	if err := t.normalize(); err != nil {
		return d, err
	}
	if err := ctx.Err(); err != nil {
		return d, err
	}
	w := newWaiter(t)
	if !l.lines.busy(w.keys) {
		if err := l.Decide(ctx, t, &d); err != nil {
			return d, err
		}
		if d.Allowed {
			return l.untilDue(ctx, t, d)
		}
		if err := hopeless(ctx, &d); err != nil {
			return d, err
		}
	}
	l.watch()
	l.lines.join(w)
	defer l.lines.leave(w)
	select {
	case <-w.leads:
	case <-ctx.Done():
		return Decision{}, ctx.Err()
	}
	return l.lead(ctx, t, w)
}

// watch starts hearing of room made by other processes, once somebody waits.
func (l *Limiter) watch() {
	if w, ok := l.store.(Watcher); ok {
		l.watching.Do(func() { w.Watch(l.lines.wakeKey) })
	}
}

// lead takes for the first in line.
func (l *Limiter) lead(ctx context.Context, t *Take, w *waiter) (Decision, error) {
	var d Decision
	for {
		t.Within = ahead(ctx, t)
		if err := l.Decide(ctx, t, &d); err != nil {
			return d, err
		}
		if d.Allowed {
			return l.untilDue(ctx, t, d)
		}
		if err := hopeless(ctx, &d); err != nil {
			return d, err
		}
		if err := sleep(ctx, max(d.RetryAfter, time.Millisecond), w.woken); err != nil {
			return d, err
		}
	}
}

// ahead is how far ahead t may take what is not there yet. A window would
// count it now though its caller acts later, when others may use it in full.
func ahead(ctx context.Context, t *Take) time.Duration {
	for i := range t.Demands {
		if d := &t.Demands[i]; d.Limit.Algorithm != TokenBucket && !d.Shadow {
			return 0
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		return max(min(time.Until(deadline), maxReserve), 0)
	}
	return maxReserve
}

// untilDue waits until what d has taken is there. A repeated take belongs to
// the caller that was first, so it is not given back.
func (l *Limiter) untilDue(ctx context.Context, t *Take, d Decision) (Decision, error) {
	err := sleep(ctx, d.Delay, nil)
	if err == nil {
		return d, nil
	}
	d.Allowed = false
	if !d.Repeated {
		l.giveBack(ctx, t, &d)
	}
	return d, err
}

// giveBack undoes a take whose caller gave up before it was due.
func (l *Limiter) giveBack(ctx context.Context, t *Take, d *Decision) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if t.Lease {
		l.Settle(ctx, Settlement{ID: t.ID, Action: Release}) //nolint:errcheck // lost at worst: it expires
		return
	}
	refunds := make([]Demand, 0, len(t.Demands))
	for i, r := range d.Results {
		if r.Consumed > 0 {
			refund := t.Demands[i]
			refund.Cost = -r.Consumed
			refunds = append(refunds, refund)
		}
	}
	l.Adjust(ctx, refunds...) //nolint:errcheck // an unknown refund is lost
}

// hopeless is the refusal as an error if waiting cannot help.
func hopeless(ctx context.Context, d *Decision) error {
	deadline, ok := ctx.Deadline()
	switch {
	case d.RetryAfter == Never:
		return d.Err()
	case ok && time.Now().Add(d.RetryAfter).After(deadline):
		return fmt.Errorf("waiting would pass the deadline: %w", d.Err())
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-woken:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// waiter is a caller in line for all the buckets of its take.
type waiter struct {
	keys  []Key
	rank  time.Time
	leads chan struct{} // closed once it is first in all its lines
	woken chan struct{} // there may be room sooner than expected
	first bool
}

func newWaiter(t *Take) *waiter {
	w := &waiter{
		rank:  time.Now().Add(t.Priority.patience()),
		leads: make(chan struct{}),
		woken: make(chan struct{}, 1),
	}
	for i := range t.Demands {
		w.keys = append(w.keys, t.Demands[i].Key)
	}
	return w
}

// lines are the callers waiting for each bucket, by rank. A caller stands in
// the lines of all its buckets and acts once it is first in every one. Ranks
// order all callers alike, so whoever ranks first overall is first in all its
// lines, and there is always somebody who can act.
type lines struct {
	mu    sync.Mutex
	byKey map[Key][]*waiter
}

func (ls *lines) busy(keys []Key) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.ContainsFunc(keys, func(k Key) bool { return len(ls.byKey[k]) > 0 })
}

func (ls *lines) join(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byKey == nil {
		ls.byKey = map[Key][]*waiter{}
	}
	for _, k := range w.keys {
		line := ls.byKey[k]
		at := len(line)
		// Whoever acts already keeps its place.
		for at > 0 && !line[at-1].first && w.rank.Before(line[at-1].rank) {
			at--
		}
		ls.byKey[k] = slices.Insert(line, at, w)
	}
	ls.promote(w)
}

func (ls *lines) leave(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, k := range w.keys {
		line := ls.byKey[k]
		if i := slices.Index(line, w); i >= 0 {
			line = slices.Delete(line, i, i+1)
		}
		if len(line) == 0 {
			delete(ls.byKey, k)
			continue
		}
		ls.byKey[k] = line
	}
	for _, k := range w.keys {
		if line := ls.byKey[k]; len(line) > 0 {
			ls.promote(line[0])
		}
	}
}

// promote lets w act if it is first everywhere.
func (ls *lines) promote(w *waiter) {
	if w.first {
		return
	}
	for _, k := range w.keys {
		if ls.byKey[k][0] != w {
			return
		}
	}
	w.first = true
	close(w.leads)
}

// wake tells those first in line that d gave something back.
func (ls *lines) wake(d *Decision) {
	for i := range d.Results {
		ls.wakeKey(d.Demands[i].Key)
	}
}

func (ls *lines) wakeKeys(keys []Key) {
	for _, k := range keys {
		ls.wakeKey(k)
	}
}

func (ls *lines) wakeKey(k Key) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if line := ls.byKey[k]; len(line) > 0 {
		select {
		case line[0].woken <- struct{}{}:
		default:
		}
	}
}
