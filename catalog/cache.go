package catalog

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// unwatched is how long an answer is trusted while changes elsewhere are
	// not heard of.
	unwatched = time.Second

	// staleLimits is how long limits are still used if they cannot be read
	// again: old limits are better than none. API keys are, for less long,
	// unless they are known to have changed.
	staleLimits = time.Hour
	staleKeys   = time.Minute

	// patience is how long a caller waits for a new answer who could have an
	// old one.
	patience = time.Second

	loadTimeout = 10 * time.Second
	shards      = 64

	// maxReadings is how many reads of one cache are under way at once. They go
	// on when who began them is gone, so there must be an end to them.
	maxReadings = 256
)

// cache remembers answers, "nothing there" among them. Each is read once at a
// time, however many ask for it.
type cache[K comparable, V any] struct {
	ttl, stale time.Duration // stale is how long after ttl an answer may be used if there is no new one
	strict     bool          // even then not if it is known to have changed
	clock      func() time.Time
	freshness  *freshness
	load       func(context.Context, K) (loaded[V], error)
	each       int // entries in a shard
	room       chan struct{}
	shards     [shards]shard[K, V]

	loads, failures, served, evicted atomic.Int64
}

// loaded is an answer and what it depends on. If until is not zero, it is
// good until then at most.
type loaded[V any] struct {
	value V
	slots []uint32
	until time.Time
}

type shard[K comparable, V any] struct {
	sync.RWMutex
	entries  map[K]*entry[V]
	readings map[K]*reading[V]
	hits     atomic.Int64 // here, for one counter for all would be fought over
	misses   atomic.Int64
}

type entry[V any] struct {
	loaded[V]
	read    uint64    // the number of the last change before it was read
	at      time.Time // when it was read
	retryAt time.Time // after a failure: when to try to read it again
}

type reading[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// CacheStats are the figures of one cache.
type CacheStats struct {
	Hits, Misses int64 // answered from memory, and not
	Loads        int64 // reads of the store; fewer than misses if many wait for the same
	Failures     int64 // reads that failed
	Stale        int64 // old answers given because there was no new one
	Evicted      int64 // answers forgotten for want of room
	Entries      int
}

func newCache[K comparable, V any](entries int, ttl, stale time.Duration, clock func() time.Time, f *freshness,
	load func(context.Context, K) (loaded[V], error)) *cache[K, V] {
	c := &cache[K, V]{ttl: ttl, stale: stale, clock: clock, freshness: f, load: load,
		each: max(1, entries/shards), room: make(chan struct{}, maxReadings)}
	for i := range c.shards {
		c.shards[i].entries = map[K]*entry[V]{}
		c.shards[i].readings = map[K]*reading[V]{}
	}
	return c
}

func (c *cache[K, V]) stats() (s CacheStats) {
	for i := range c.shards {
		sh := &c.shards[i]
		s.Hits += sh.hits.Load()
		s.Misses += sh.misses.Load()
		sh.RLock()
		s.Entries += len(sh.entries)
		sh.RUnlock()
	}
	s.Loads, s.Failures, s.Stale, s.Evicted = c.loads.Load(), c.failures.Load(), c.served.Load(), c.evicted.Load()
	return s
}

func (c *cache[K, V]) get(ctx context.Context, k K) (V, error) {
	sh := &c.shards[maphash.Comparable(seed, k)%shards]
	sh.RLock()
	e := sh.entries[k]
	sh.RUnlock()
	now := c.clock()
	if e != nil && c.good(e, now) {
		sh.hits.Add(1)
		return e.value, nil
	}
	sh.misses.Add(1)
	return c.miss(ctx, sh, k, e, now)
}

// good reports whether e can be given without asking again.
func (c *cache[K, V]) good(e *entry[V], now time.Time) bool {
	ttl := c.ttl
	if !c.freshness.watching.Load() {
		ttl = min(ttl, unwatched)
	}
	return now.Sub(e.at) < ttl && (e.until.IsZero() || now.Before(e.until)) && c.freshness.fresh(e.read, e.slots)
}

func (c *cache[K, V]) miss(ctx context.Context, sh *shard[K, V], k K, old *entry[V], now time.Time) (V, error) {
	usable := old != nil && now.Sub(old.at) < c.ttl+c.stale && (!c.strict || c.freshness.fresh(old.read, old.slots))
	if usable && now.Before(old.retryAt) {
		c.served.Add(1)
		return old.value, nil
	}
	var patient <-chan time.Time
	if usable {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		patient = timer.C
	}
	r, err := c.wait(ctx, sh, k, patient)
	if !usable {
		if err != nil {
			var none V
			return none, err
		}
		return r.value, r.err
	}
	if err == nil && r.err == nil {
		return r.value, nil
	}
	c.served.Add(1)
	return old.value, nil
}

var errImpatient = errors.New("it takes long, and there is an old answer")

// wait waits until a reading is done, and for room to begin one.
func (c *cache[K, V]) wait(ctx context.Context, sh *shard[K, V], k K, patient <-chan time.Time) (*reading[V], error) {
	var room chan<- struct{}
	var done <-chan struct{}
	r := c.join(ctx, sh, k, false)
	for {
		if r != nil {
			room, done = nil, r.done
		} else {
			room = c.room
		}
		select {
		case <-done:
			return r, nil
		case room <- struct{}{}:
			r = c.join(ctx, sh, k, true)
		case <-patient:
			return nil, errImpatient
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// join starts a reading, or joins those who wait for it already. It returns nil
// if there is no room for it, unless the caller has it.
func (c *cache[K, V]) join(ctx context.Context, sh *shard[K, V], k K, room bool) *reading[V] {
	sh.Lock()
	defer sh.Unlock()
	if r := sh.readings[k]; r != nil {
		if room {
			<-c.room
		}
		return r
	}
	if !room {
		select {
		case c.room <- struct{}{}:
		default:
			return nil
		}
	}
	r := &reading[V]{done: make(chan struct{})}
	sh.readings[k] = r
	// Others wait for it too, so it does not end with who began it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
	go func() {
		defer func() { <-c.room }()
		defer cancel()
		c.read(ctx, sh, k, r)
	}()
	return r
}

// read reads until it has an answer that no change has overtaken, for whoever
// joined after the change must not get what was before it. That is looked at
// under the lock, which those who join hold, too.
func (c *cache[K, V]) read(ctx context.Context, sh *shard[K, V], k K, r *reading[V]) {
	for try := 1; ; try++ {
		e := &entry[V]{read: c.freshness.last.Load(), at: c.clock()}
		c.loads.Add(1)
		e.loaded, r.err = c.load(ctx, k)
		sh.Lock()
		if r.err == nil && try < 10 && !c.freshness.fresh(e.read, e.slots) {
			sh.Unlock()
			continue
		}
		r.value = e.value
		c.keep(sh, k, e, r.err)
		delete(sh.readings, k)
		sh.Unlock()
		close(r.done)
		return
	}
}

// drop forgets answers that nobody will ask for again, so that they do not take
// the room of others.
func (c *cache[K, V]) drop(gone func(K) bool) {
	for i := range c.shards {
		sh := &c.shards[i]
		sh.Lock()
		maps.DeleteFunc(sh.entries, func(k K, _ *entry[V]) bool { return gone(k) })
		sh.Unlock()
	}
}

// shrink forgets every other answer, whichever they are, and returns how many.
func (c *cache[K, V]) shrink() (n int64) {
	for i := range c.shards {
		sh := &c.shards[i]
		sh.Lock()
		kept := 0
		maps.DeleteFunc(sh.entries, func(K, *entry[V]) bool {
			kept++
			return kept%2 == 1
		})
		sh.Unlock()
		n += int64((kept + 1) / 2)
	}
	c.evicted.Add(n)
	return n
}

// keep stores an answer, or when to ask again after a failure.
func (c *cache[K, V]) keep(sh *shard[K, V], k K, e *entry[V], err error) {
	if err != nil {
		c.failures.Add(1)
		if old := sh.entries[k]; old != nil {
			again := *old
			again.retryAt = c.clock().Add(unwatched)
			sh.entries[k] = &again
		}
		return
	}
	if len(sh.entries) >= c.each && sh.entries[k] == nil {
		for victim := range sh.entries { // a map begins anywhere
			delete(sh.entries, victim)
			c.evicted.Add(1)
			break
		}
	}
	sh.entries[k] = e
}
