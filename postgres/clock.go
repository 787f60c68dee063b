package postgres

import (
	"log/slog"
	"sync"
	"time"
)

// clock compares the database's time with this process's monotonic one, to
// know about what time it is there, and to notice when it is set: no bucket
// goes back in time, but one refills for as long as the clock is set forward.
type clock struct {
	mu    sync.Mutex
	set   bool
	there int64         // what the database's clock showed when last heard of,
	here  time.Time     // at this time here,
	slack time.Duration // or up to this much earlier

	back    int64
	forward int64
}

// step is the least difference that is taken for a clock that was set.
const step = 250 * time.Millisecond

// saw is told what the database's clock showed at some moment since asked.
func (c *clock) saw(there int64, asked time.Time, log *slog.Logger) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set {
		early := asked.Sub(c.here) - step
		late := now.Sub(c.here) + c.slack + step
		switch elapsed := time.Duration(there-c.there) * time.Microsecond; {
		case elapsed < early:
			c.back++
			log.Warn("postgres store: the database's clock was set back: no bucket refills until it has caught up", "by", (early - elapsed + step).Round(time.Millisecond))
		case elapsed > late:
			c.forward++
			log.Warn("postgres store: the database's clock was set forward: buckets refill for the difference", "by", (elapsed - late + step).Round(time.Millisecond))
		}
	}
	c.set, c.there, c.here, c.slack = true, there, now, now.Sub(asked)
}

// now is about what time it is in the database.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.set {
		return time.Now().UnixMicro()
	}
	return c.there + time.Since(c.here).Microseconds()
}
