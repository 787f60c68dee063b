package memory

import (
	"sync"

	"github.com/sluice-go/sluice"
)

// hot is a bucket that several callers take from at once. It has the state in
// the cache line of its own lock, so that a take moves one line from one
// processor to another, and nothing else that a take writes.
//
// While a bucket is hot, the state in its record is out of date. Whoever locks
// the shard writes it back first, so only takes of one limit know about hot
// buckets. The lock of the shard comes before the lock of the hot bucket.
type hot struct {
	mu     sync.Mutex
	offset uint32 // of the record in the table; 0 means that no bucket is hot
	index  uint32 // of the bucket in the record
	state  state
	table  *table
	scope  *scope
}

// lock waits for the lock without sleeping at first, since it is held for a
// few nanoseconds.
func (h *hot) lock() {
	const tries, turns = 16, 20
	for range tries {
		if h.mu.TryLock() {
			return
		}
		for range turns { // leave the line to its owner
		}
	}
	h.mu.Lock()
}

// limit returns the limit of the bucket if it is k's, or nil. The caller holds
// the lock.
func (h *hot) limit(k *sluice.Key) *scopeLimit {
	if h.offset == 0 || !h.table.isEntity(h.table.head(int(h.offset)), k.Entity) || !h.scope.covers(k) {
		return nil
	}
	if l := &h.scope.limits[h.index]; same(l.name, k.Limit) {
		return l
	}
	return nil
}

// heat makes a bucket hot. The caller holds the lock of its shard, in which no
// bucket is hot.
func (s *Store) heat(shard uint32, at spot, sc *scope) {
	h, t := &s.hots[shard], s.shards[shard].tables[at.class]
	h.mu.Lock()
	h.offset, h.index, h.table, h.scope = uint32(at.offset), uint32(at.index), t, sc
	h.state = *t.state(at.offset, at.index)
	h.mu.Unlock()
	s.setHot(shard, true)
}

// lockShard locks a shard and brings its records up to date.
func (s *Store) lockShard(n uint32) *shard {
	sh := &s.shards[n]
	sh.mu.Lock()
	if sh.hot {
		s.cool(n)
	}
	return sh
}

// cool writes the state of a hot bucket back to its record. The caller holds
// the lock of the shard.
func (s *Store) cool(shard uint32) {
	h := &s.hots[shard]
	h.mu.Lock()
	*h.table.state(int(h.offset), int(h.index)) = h.state
	h.offset, h.table, h.scope = 0, nil, nil
	h.mu.Unlock()
	s.setHot(shard, false)
}

// setHot says whether a shard has a hot bucket, to those who have its lock and
// to those who do not.
func (s *Store) setHot(shard uint32, hot bool) {
	s.shards[shard].hot = hot
	s.hints[0][shard].hot.Store(hot)
}
