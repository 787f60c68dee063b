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

// saw is told the store's time at some moment since asked.
func (c *clock) saw(there, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.there, c.here = there.Round(0), asked.Add(time.Since(asked)/2)
}
