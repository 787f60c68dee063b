package world

import (
	"sync"
	"time"
)

// clocks are the store's clock and that of the bound.
//
// The bucket of a store whose clock steps back stands still until the clock
// has caught up; the bucket's time is then not the store's. The bound is
// measured on a clock that no bucket's outruns and that needs no bucket to
// be looked at: it goes on through a step back and jumps with a step forward.
type clocks struct {
	start time.Time

	mu      sync.Mutex
	store   time.Duration // ahead of the bubble's time
	forward time.Duration // all steps forward together
	latest  int64         // the latest that the store's clock has shown, in microseconds
}

// Stamp is a moment on each clock.
type Stamp struct {
	At     time.Duration // since the world began
	Bound  int64         // microseconds on the clock of the bound
	Store  int64         // microseconds on the store's clock
	Latest int64         // the latest that the store's clock had shown by then
}

func newClocks(ahead time.Duration) *clocks {
	return &clocks{start: time.Now(), store: ahead}
}

// now is the store's time.
func (c *clocks) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.store)
}

func (c *clocks) stamp() Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s := Stamp{At: now.Sub(c.start), Bound: now.Add(c.forward).UnixMicro(), Store: now.Add(c.store).UnixMicro()}
	c.latest = max(c.latest, s.Store)
	s.Latest = c.latest
	return s
}

// step moves the store's clock.
func (c *clocks) step(by time.Duration) {
	c.stamp() // for latest
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store += by
	c.forward += max(by, 0)
}

// stood is how far the store's clock is behind what it has shown already.
func (c *clocks) stood() time.Duration {
	s := c.stamp()
	return time.Duration(s.Latest-s.Store) * time.Microsecond
}
