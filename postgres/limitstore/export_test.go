package limitstore

import (
	"context"
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
