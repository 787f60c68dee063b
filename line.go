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
	seq     uint64        // orders equal ranks
	acting  bool          // in all its lines
	woken   chan struct{} // it acts, or there may be room sooner than expected
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

func (w *waiter) before(o *waiter) bool {
	if c := w.rank.Compare(o.rank); c != 0 {
		return c < 0
	}
	return w.seq < o.seq
}

// line is who waits for a bucket, by rank, and who of them acts.
type line struct {
	waiters []*waiter
	acting  *waiter
}

// lines are the callers of this process waiting for each bucket. A caller
// stands in the lines of the buckets that had no room when it last asked. It
// acts, which is to ask again, unless somebody who acts is before it in one of
// its lines: it would be told to wait behind that one. Who is kept from acting
// in one line keeps nobody in another, since it could not use what it got
// there. Whoever ranks first overall acts, so there is always somebody.
type lines struct {
	mu    sync.Mutex
	seq   uint64
	byKey map[Key]*line
	all   map[*waiter]struct{}
}

// busy are the buckets of t that somebody waits for.
func (ls *lines) busy(t *Take) (keys []Key) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i := range t.Demands {
		if k := t.Demands[i].Key; ls.byKey[k] != nil && !t.Demands[i].Shadow {
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
		ls.byKey, ls.all = map[Key]*line{}, map[*waiter]struct{}{}
	}
	if len(w.keys) == 0 {
		ls.seq++
		w.seq = ls.seq
		ls.all[w] = struct{}{}
	}
	changed := ls.rest(w, nil)
	for _, k := range w.keys {
		l := ls.byKey[k]
		at := slices.Index(l.waiters, w)
		if l.waiters = slices.Delete(l.waiters, at, at+1); len(l.waiters) == 0 {
			delete(ls.byKey, k)
		}
	}
	w.keys = keys
	for _, k := range keys {
		l := ls.byKey[k]
		if l == nil {
			l = &line{}
			ls.byKey[k] = l
		}
		at := len(l.waiters)
		for at > 0 && w.before(l.waiters[at-1]) {
			at--
		}
		l.waiters = slices.Insert(l.waiters, at, w)
	}
	if len(keys) == 0 {
		delete(ls.all, w)
	}
	ls.elect(append(changed, keys...))
}

// elect lets those act in the lines of keys whom nobody keeps from it.
func (ls *lines) elect(keys []Key) {
	for len(keys) > 0 {
		l := ls.byKey[keys[0]]
		keys = keys[1:]
		if l == nil {
			continue
		}
		for _, w := range l.waiters {
			if ls.kept(w) {
				keys = ls.rest(w, keys)
				continue
			}
			if !w.acting {
				for _, k := range w.keys {
					if later := ls.byKey[k].acting; later != nil {
						keys = ls.rest(later, keys)
					}
					ls.byKey[k].acting = w
				}
				w.acting = true
				w.wake()
			}
			break
		}
	}
}

// kept reports whether somebody who acts is before w in one of its lines.
func (ls *lines) kept(w *waiter) bool {
	return slices.ContainsFunc(w.keys, func(k Key) bool {
		acting := ls.byKey[k].acting
		return acting != nil && acting.before(w)
	})
}

// rest lets w act no longer, and adds the lines in which others may now.
func (ls *lines) rest(w *waiter, keys []Key) []Key {
	if !w.acting {
		return keys
	}
	w.acting = false
	for _, k := range w.keys {
		ls.byKey[k].acting = nil
	}
	return append(keys, w.keys...)
}

// turn waits until w has reason to ask: it acts, and the pause is over or it
// was woken.
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
		acting := w.acting
		ls.mu.Unlock()
		if acting {
			select {
			case <-w.woken: // asking once is enough
			default:
			}
			return nil
		}
	}
}

// wake tells who acts in the line for a bucket that there may be room: all who
// wait for [AnyKey].
func (ls *lines) wake(k Key) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if k == AnyKey {
		for w := range ls.all {
			w.wake()
		}
		return
	}
	if l := ls.byKey[k]; l != nil && l.acting != nil {
		l.acting.wake()
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

// Waiting reports who waits for a bucket in this process. [Bucket.Tickets] tells in
// how many processes somebody does.
func (l *Limiter) Waiting(k Key) Queue {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	var q Queue
	if line := l.lines.byKey[k]; line != nil {
		for _, w := range line.waiters {
			q.add(w)
		}
	}
	return q
}

// WaitingAll reports who waits for any bucket in this process.
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
