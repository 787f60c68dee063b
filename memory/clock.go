package memory

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// clock tells microseconds since the epoch, following the monotonic clock.
type clock struct {
	fixed func() time.Time // for tests

	origin time.Time    // with its monotonic reading
	offset atomic.Int64 // the time at origin, in microseconds

	looked time.Duration // how long the store had been running when it last compared

	back, forward atomic.Int64 // steps of the wall clock seen
	gaps          atomic.Int64 // long times in which it was not compared
	ahead         atomic.Int64 // of the wall clock, in microseconds
}

const (
	// step is the least difference between the clocks that is taken for a step.
	step = int64(50 * time.Millisecond / time.Microsecond)

	// longGap is how long the clocks, which are compared every second, must not
	// have been for that to be worth a line in the log.
	longGap = 15 * time.Second
)

func (c *clock) start(config Config) {
	c.fixed = config.Clock
	c.origin = time.Now()
	c.offset.Store(c.origin.UnixMicro())
}

func (c *clock) now() int64 {
	if c.fixed != nil {
		return c.fixed().UnixMicro()
	}
	return c.offset.Load() + int64(time.Since(c.origin)/time.Microsecond)
}

// compare looks for steps of the wall clock, and for long times in which nobody
// looked. It follows only steps forward. It is told how long the store has been
// running and what the wall clock says.
func (c *clock) compare(running time.Duration, wall int64, log *slog.Logger) {
	if c.fixed != nil {
		return
	}
	gap := running - c.looked
	c.looked = running
	ahead := c.offset.Load() + running.Microseconds() - wall
	before := c.ahead.Load()
	switch {
	case ahead < -step: // the store is behind: the wall clock was set forward
		c.offset.Add(-ahead)
		c.forward.Add(1)
		c.ahead.Store(0)
		log.Warn("clock set forward: buckets refill for the difference", "by", time.Duration(-ahead)*time.Microsecond)
	case ahead > before+step:
		c.back.Add(1)
		c.ahead.Store(ahead)
		log.Warn("clock set back: the store keeps its own time", "ahead", time.Duration(ahead)*time.Microsecond)
	case ahead < before-step:
		c.ahead.Store(max(ahead, 0)) // the wall clock is catching up
	}
	if gap > longGap {
		c.gaps.Add(1)
		log.Warn("the process stood still for long: buckets have refilled meanwhile, to their capacity at most", "for", gap.Round(time.Millisecond))
	}
}
