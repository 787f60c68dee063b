// Package testclock has the clocks of tests.
package testclock

import (
	"sync/atomic"
	"time"
)

// Clock is a clock that stands still until the test moves it. It is safe for concurrent use.
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

// Ahead is a clock that runs, ahead of the machine's. Its zero value shows the
// machine's time. It is safe for concurrent use.
type Ahead struct{ by atomic.Int64 }

// Now returns the time that the clock shows.
func (a *Ahead) Now() time.Time { return time.Now().Add(time.Duration(a.by.Load())) }

// Set sets how far ahead the clock is.
func (a *Ahead) Set(by time.Duration) { a.by.Store(int64(by)) }
