package sluice

import (
	"context"
	"slices"
	"sync"
	"time"
)

// waiter is a caller in line for the buckets that had no room for it.
type waiter struct {
	keys    []Key // of the lines it stands in
	arrived time.Time
	rank    time.Time
	first   bool          // in all its lines
	woken   chan struct{} // it is first, or there may be room sooner than expected
}

func newWaiter(p Priority) *waiter {
	now := time.Now()
	return &waiter{arrived: now, rank: now.Add(p.patience()), woken: make(chan struct{}, 1)}
}

func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// lines are the callers of this process waiting for each bucket, by rank. A
// caller stands in the lines of the buckets that had no room when it last
// asked, and asks again only while it is first in every one of them: the
// others would be told to wait behind it. Ranks order all callers alike, so
// whoever ranks first overall is first in all its lines, and there is always
// somebody who can act.
type lines struct {
	mu    sync.Mutex
	byKey map[Key][]*waiter
	all   map[*waiter]struct{}
}

// busy are the buckets of t that somebody waits for.
func (ls *lines) busy(t *Take) (keys []Key) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i := range t.Demands {
		if k := t.Demands[i].Key; len(ls.byKey[k]) > 0 && !t.Demands[i].Shadow {
			keys = append(keys, k)
		}
	}
	return keys
}

// stand puts w into the lines of keys, and out of all others.
func (ls *lines) stand(w *waiter, keys []Key) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if slices.Equal(keys, w.keys) {
		return
	}
	if ls.byKey == nil {
		ls.byKey, ls.all = map[Key][]*waiter{}, map[*waiter]struct{}{}
	}
	left := w.keys
	for _, k := range left {
		line := ls.byKey[k]
		line = slices.Delete(line, slices.Index(line, w), slices.Index(line, w)+1)
		if ls.byKey[k] = line; len(line) == 0 {
			delete(ls.byKey, k)
		}
	}
	w.keys, w.first = keys, false
	for _, k := range keys {
		line := ls.byKey[k]
		at := len(line)
		for at > 0 && w.rank.Before(line[at-1].rank) {
			at--
			line[at].first = false
		}
		ls.byKey[k] = slices.Insert(line, at, w)
	}
	if len(keys) > 0 {
		ls.all[w] = struct{}{}
	} else {
		delete(ls.all, w)
	}
	ls.promote(w)
	for _, k := range left {
		if line := ls.byKey[k]; len(line) > 0 {
			ls.promote(line[0])
		}
	}
}

// promote lets w act if it is first everywhere.
func (ls *lines) promote(w *waiter) {
	if w.first || len(w.keys) == 0 {
		return
	}
	for _, k := range w.keys {
		if ls.byKey[k][0] != w {
			return
		}
	}
	w.first = true
	w.wake()
}

// turn waits until w has reason to ask: it is first, and the pause is over or
// it was woken.
func (ls *lines) turn(ctx context.Context, w *waiter, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-w.woken:
		case <-timer.C:
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		ls.mu.Lock()
		first := w.first
		ls.mu.Unlock()
		if first {
			select {
			case <-w.woken: // asking once is enough
			default:
			}
			return nil
		}
	}
}

// wake tells those first in line for a bucket that there may be room: all of
// them for [AnyKey].
func (ls *lines) wake(k Key) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if k == AnyKey {
		for w := range ls.all {
			w.wake()
		}
		return
	}
	if line := ls.byKey[k]; len(line) > 0 {
		line[0].wake()
	}
}

// wakeAll tells those who wait for the buckets of d, which gave something
// back.
func (ls *lines) wakeAll(d *Decision) {
	for i := range d.Results {
		ls.wake(d.Demands[i].Key)
	}
}

// Queue is how many callers wait, and for how long the first of them has.
type Queue struct {
	Length  int
	Longest time.Duration
}

// Waiting is who waits for a bucket in this process. [Bucket.Tickets] tells in
// how many processes somebody does.
func (l *Limiter) Waiting(k Key) Queue {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	var q Queue
	for _, w := range l.lines.byKey[k] {
		q.add(w)
	}
	return q
}

// WaitingAll is who waits for any bucket in this process.
func (l *Limiter) WaitingAll() Queue {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	var q Queue
	for w := range l.lines.all {
		q.add(w)
	}
	return q
}

func (q *Queue) add(w *waiter) {
	q.Length++
	q.Longest = max(q.Longest, time.Since(w.arrived))
}
