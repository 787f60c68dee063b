package memory

import "time"

const (
	tick       = 100 * time.Millisecond
	passTicks  = 100 // a background pass over everything takes this many
	sweepBatch = 256 // records looked at under one lock

	// grace spares buckets that were just used: a fast limit is full again
	// within microseconds, and would be forgotten only to be made anew.
	grace = int64(10 * time.Second / time.Microsecond)
)

// sweep looks at the next n records of a table and forgets those whose buckets
// are all full. The caller holds the lock. Records may move.
func (s *Store) sweep(t *table, n int, now int64) {
	for ; n > 0 && t.live > 0; n-- {
		at := t.next(t.cursor)
		if at == 0 {
			at = t.next(0)
		}
		t.cursor = at
		sc := s.scopes.get(t.head(at).scope())
		if !s.over(t, at, sc, now) {
			continue
		}
		size := t.remove(at)
		s.scopes.release(sc)
		s.buckets.Add(-int64(len(sc.limits)))
		s.bytes.Add(-size)
		s.forgotten.Add(int64(len(sc.limits)))
	}
	t.compact()
}

// over reports whether a record can be forgotten.
func (s *Store) over(t *table, at int, sc *scope, now int64) bool {
	for i := range sc.limits {
		spec, st := sc.limits[i].spec, t.read(at, i)
		v := spec.View(&st, now)
		if !v.Idle() || st.Recalled(v) || now-spec.Touched(&st) < grace && !s.full() {
			return false
		}
	}
	return true
}

// makeRoom looks for full buckets in a shard of a store that has reached its
// bound, and reports whether it is now below it.
func (s *Store) makeRoom(shard uint32, now int64) bool {
	sh := s.lockShard(shard)
	for _, t := range sh.tables {
		if t != nil {
			s.sweep(t, 32, now)
		}
	}
	sh.mu.Unlock()
	return !s.full()
}

// Press tells the store whether the process is short of memory. While it is, the
// store behaves as at its bound: full buckets are forgotten at once, and new keys
// share a bucket. It returns how many buckets it has forgotten.
func (s *Store) Press(pressed bool) (forgotten int64) {
	s.pressed.Store(pressed)
	if !pressed {
		return 0
	}
	before := s.forgotten.Load()
	for part := range passTicks {
		s.sweepSome(part)
	}
	return s.forgotten.Load() - before
}

// housekeep forgets what is over, watches the clock and saves snapshots.
func (s *Store) housekeep() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	save := time.Now().Add(s.config.SnapshotEvery)
	for n := 0; ; n++ {
		select {
		case <-s.stop:
			return
		case wall := <-ticker.C:
			if n%10 == 0 {
				s.clock.compare(time.Since(s.clock.origin), time.Now().UnixMicro(), s.config.Log)
			}
			s.sweepSome(n % passTicks)
			if s.config.Snapshot != "" && !wall.Before(save) {
				if err := s.Save(); err != nil {
					s.config.Log.Error("snapshot not saved", "file", s.config.Snapshot, "error", err)
				}
				// A large state is saved less often, to take a tenth of a core at most.
				save = wall.Add(max(s.config.SnapshotEvery, 10*time.Since(wall)))
			}
		}
	}
}

// sweepSome does its part of a pass over all shards and receipts.
func (s *Store) sweepSome(part int) {
	for i := part; i < shardCount; i += passTicks {
		for class := range classes {
			s.sweepAll(uint32(i), class)
		}
	}
	for i := part; i < receiptShards; i += passTicks {
		rs := &s.receipts[i]
		rs.mu.Lock()
		s.expire(rs, s.clock.now(), 1<<30)
		rs.mu.Unlock()
	}
}

// sweepAll goes once over a table, a batch at a time.
func (s *Store) sweepAll(shard uint32, class int) {
	sh := s.lockShard(shard)
	t, left := sh.tables[class], 0
	if t != nil {
		left = t.live
	}
	sh.mu.Unlock()
	for left > 0 {
		n := min(left, sweepBatch)
		s.lockShard(shard)
		s.sweep(t, n, s.clock.now())
		sh.mu.Unlock()
		left -= n
	}
}
