package limitstore

import (
	"context"
	"math"
	"time"
)

// What tests look at from outside.

// Hearing reports whether the store listens for notifications.
func Hearing(s *Store) bool {
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	return s.watch.hearing
}

// Pooled reports whether the store has found a pooler.
func Pooled(s *Store) bool { return s.db.Patience() != nil }

// Sweep sweeps once, as long as the last sweep of anybody is pause ago.
func Sweep(s *Store, pause time.Duration) (buckets, receipts int, err error) {
	n, err := s.sweep(context.Background(), pause)
	return n.buckets, n.receipts, err
}

// TakeGenerally has every take decided by take_v2, also those that take_plain_v2
// could decide.
func TakeGenerally(s *Store) {
	for i := range s.marks.uneven {
		s.marks.uneven[i].Store(math.MaxInt64)
	}
}

// Uneven reports whether take_plain_v2 has left a take to take_v2.
func Uneven(s *Store) bool {
	for i := range s.marks.uneven {
		if s.marks.uneven[i].Load() != 0 {
			return true
		}
	}
	return false
}
