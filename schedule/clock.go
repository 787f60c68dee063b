package schedule

import (
	"sync"
	"time"
)

// clock tells about what time it is in the store, so that the clocks of nodes
// do not matter: the store's time when last heard of, plus what has passed
// since by this process's monotonic one.
type clock struct {
	given func() time.Time // replaces it all, in tests

	mu    sync.Mutex
	there time.Time
	here  time.Time
}

func (c *clock) now() time.Time {
	if c.given != nil {
		return c.given()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.there.IsZero() {
		return time.Now()
	}
	return c.there.Add(time.Since(c.here))
}

// saw is told the store's time when its answer has come. It may have been on its
// way for a while, so that this clock is behind the store's and never ahead:
// nothing starts before its time.
func (c *clock) saw(there time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.there, c.here = there.Round(0), time.Now()
}
