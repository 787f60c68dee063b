package limitstore

import (
	"log/slog"
	"sync"
	"time"
)

// clock compares the database's time with this process's monotonic one, to
// know about what time it is there, and to notice when it is set: no bucket
// goes back in time, but one refills for as long as the clock is set forward.
// It hears of the time at least as often as the store sweeps, so it also
// notices when nothing was heard for long: buckets have refilled meanwhile.
type clock struct {
	mu    sync.Mutex
	set   bool
	there int64         // what the database's clock showed when last heard of,
	here  time.Time     // at this time here,
	slack time.Duration // or up to this much earlier

	back    int64
	forward int64
	gaps    int64
}

const (
	// step is the least difference that is taken for a clock that was set.
	step = 250 * time.Millisecond

	// longGap is how long the database must not have been heard of for that to
	// be worth a line in the log: several sweeps.
	longGap = 15 * time.Second
)

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
			log.Warn("postgres store: the database's clock was set forward, or this machine was suspended: buckets refill for the difference", "by", (elapsed - late + step).Round(time.Millisecond))
		case elapsed > longGap:
			c.gaps++
			log.Warn("postgres store: nothing was heard of the database for long: buckets have refilled meanwhile, to their capacity at most", "for", elapsed.Round(time.Millisecond))
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
