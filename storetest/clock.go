package storetest

import (
	"sync/atomic"
	"time"
)

// clock is a clock that stands still until it is moved. It counts whole
// microseconds, as stores do.
type clock struct {
	micros atomic.Int64
	latest atomic.Int64 // the latest it has ever shown
}

// epoch is where the clocks of most checks start: some time in the middle of
// a window of any usual length.
var epoch = time.Date(2026, time.March, 11, 10, 20, 30, 400_500_000, time.UTC)

func newClock(start time.Time) *clock {
	c := &clock{}
	c.set(start.UnixMicro())
	return c
}

func (c *clock) now() time.Time { return time.UnixMicro(c.micros.Load()) }

func (c *clock) advance(d time.Duration) { c.saw(c.micros.Add(d.Microseconds())) }

func (c *clock) set(micros int64) {
	c.micros.Store(micros)
	c.saw(micros)
}

func (c *clock) saw(micros int64) {
	for latest := c.latest.Load(); micros > latest; latest = c.latest.Load() {
		if c.latest.CompareAndSwap(latest, micros) {
			return
		}
	}
}

// behind reports whether the clock was put back and has not caught up.
func (c *clock) behind() bool { return c.micros.Load() < c.latest.Load() }

func (c *clock) catchUp() { c.set(c.latest.Load()) }
