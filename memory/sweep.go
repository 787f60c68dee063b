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

// sweep looks at the next n records of a shard and forgets those that are
// full. The caller holds its lock. Records may move.
func (s *Store) sweep(sh *shard, n int, now int64) {
	for ; n > 0 && sh.live > 0; n-- {
		at := sh.next(sh.cursor)
		if at == 0 {
			at = sh.next(0)
		}
		sh.cursor = at
		sc := s.scopes.get(sh.at(at).scope())
		st := sh.state(at)
		v := sc.spec.View(&st, now)
		if !v.Idle() || st.Recalled(v) || now-sc.spec.LastTaken(&st) < grace && !s.full() {
			continue
		}
		size := sh.remove(at)
		s.scopes.release(sc)
		s.buckets.Add(-1)
		s.bytes.Add(-size)
		s.forgotten.Add(1)
	}
	sh.compact()
}

// makeRoom looks for full buckets in a shard of a store that has reached its
// bound, and reports whether it is now below it.
func (s *Store) makeRoom(shard uint32, now int64) bool {
	sh := &s.shards[shard]
	sh.mu.Lock()
	s.sweep(sh, 32, now)
	sh.mu.Unlock()
	return !s.full()
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
		sh := &s.shards[i]
		for left := 1; left > 0; {
			sh.mu.Lock()
			if left == 1 {
				left = sh.live + 1
			}
			n := min(left-1, sweepBatch)
			s.sweep(sh, n, s.clock.now())
			sh.mu.Unlock()
			if left -= n; left == 1 {
				break
			}
		}
	}
	for i := part; i < receiptShards; i += passTicks {
		rs := &s.receipts[i]
		rs.mu.Lock()
		s.expire(rs, s.clock.now(), 1<<30)
		rs.mu.Unlock()
	}
}
