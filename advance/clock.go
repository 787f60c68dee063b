package advance

import (
	"sync/atomic"
	"time"
)

// clock measures time on the monotonic clock and notices when that cannot be
// trusted: when the wall clock has run ahead of it, as after the machine was
// suspended, or when the store's clock has.
type clock struct {
	fixed func() (wall time.Time, mono time.Duration) // for tests
	first time.Duration                               // what its mono was at the start

	origin time.Time
	wall   int64        // the wall clock at origin
	skew   atomic.Int64 // wall clock less monotonic, at its lowest

	// store is the store's time less ours: at most this, as of the last
	// replies. 0 before the first.
	store atomic.Int64

	// epoch counts distrust. Holds of an earlier epoch are void.
	epoch atomic.Uint64
}

// outrun is by how much a clock may run ahead unnoticed. The margin of every
// hold is greater.
const outrun = 500 * time.Millisecond

func (c *clock) start(fixed func() (wall time.Time, mono time.Duration)) {
	if c.fixed = fixed; fixed != nil {
		c.origin, c.first = fixed()
	} else {
		c.origin = time.Now()
	}
	c.wall = c.origin.UnixNano()
}

// read is what the two clocks say: nanoseconds since the epoch, and since the
// start.
func (c *clock) read() (wall int64, mono time.Duration) {
	if c.fixed != nil {
		t, mono := c.fixed()
		return t.UnixNano(), mono - c.first
	}
	t := time.Now()
	return t.UnixNano(), t.Sub(c.origin)
}

// now is the time since the start, and the epoch it is in.
func (c *clock) now() (time.Duration, uint64) {
	wall, mono := c.read()
	skew := wall - c.wall - int64(mono)
	if low := c.skew.Load(); skew != low {
		if skew-low > int64(outrun) {
			c.skew.Store(skew)
			c.epoch.Add(1)
		} else if skew < low {
			c.skew.Store(skew)
		}
	}
	return mono, c.epoch.Load()
}

// heard compares the store's time in a reply with ours: the reply was made
// between sent and received.
func (c *clock) heard(store time.Time, sent, received time.Duration) {
	micro := store.UnixNano()
	least, most := micro-int64(received), micro-int64(sent)
	known := c.store.Load()
	switch {
	case known == 0 || most < known:
		c.store.Store(most)
	case least-known > int64(outrun):
		c.store.Store(most)
		c.epoch.Add(1)
	}
}

// storeTime is our best guess of the store's time.
func (c *clock) storeTime(now time.Duration) time.Time {
	if offset := c.store.Load(); offset != 0 {
		return time.Unix(0, offset+int64(now))
	}
	return c.origin.Add(now)
}
