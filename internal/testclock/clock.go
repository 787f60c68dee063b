// Package testclock has a clock for tests, which stands still until it is moved.
package testclock

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that only the test moves. It is safe for concurrent use.
type Clock struct{ nanos atomic.Int64 }

// New returns a clock that shows start.
func New(start time.Time) *Clock {
	c := &Clock{}
	c.nanos.Store(start.UnixNano())
	return c
}

// Now returns the time that the clock shows, in UTC.
func (c *Clock) Now() time.Time { return time.Unix(0, c.nanos.Load()).UTC() }

// Advance moves the clock forward by d, or back if d is negative.
func (c *Clock) Advance(d time.Duration) { c.nanos.Add(int64(d)) }
