package inprocess

import (
	"hash/maphash"
	"sync"

	"github.com/sluice-go/sluice/bench/contest"
)

// floor counts up to a limit and does nothing else: no clock, no refill, no
// answer but yes or no.
type floor struct {
	seed   maphash.Seed
	burst  int64
	shards [256]floorShard
}

type floorShard struct {
	mu     sync.Mutex
	counts map[string]*int64
	_      [48]byte // keeps shards on cache lines of their own
}

func openFloor(l limit, _ int) (*instance, error) {
	f := &floor{seed: maphash.MakeSeed(), burst: int64(l.Burst)}
	for i := range f.shards {
		f.shards[i].counts = make(map[string]*int64)
	}
	return &instance{caller: func() contest.Take { return f.take }, close: func() {}}, nil
}

func (f *floor) take(key string) (bool, error) {
	s := &f.shards[maphash.String(f.seed, key)%uint64(len(f.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.counts[key]
	if n == nil {
		n = new(int64)
		s.counts[key] = n
	}
	if *n >= f.burst {
		return false, nil
	}
	*n++
	return true, nil
}
