package redis

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// clocks compares the servers' time with this process's monotonic one, to notice
// when a server's clock is set: no bucket goes back in time, but one refills for
// as long as the clock is set forward. Takes are not bothered with it. The
// servers are asked now and then instead.
type clocks struct {
	mu      sync.Mutex
	seen    map[string]seenClock // by the node's address in a cluster, "" elsewhere
	back    int64
	forward int64
}

// seenClock is what a clock showed when it was last looked at.
type seenClock struct {
	there int64         // at this time there, in microseconds,
	here  time.Time     // at this time here,
	slack time.Duration // or up to this much earlier
}

const (
	// clockStep is the least difference that is taken for a clock that was set.
	clockStep = time.Second

	// clockEvery is how often the servers are asked.
	clockEvery = 5 * time.Second
)

// saw is told what a server's clock showed at some moment since asked.
func (c *clocks) saw(addr string, there int64, asked time.Time, log *slog.Logger) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if last, ok := c.seen[addr]; ok {
		least, most := asked.Sub(last.here), now.Sub(last.here)+last.slack
		switch elapsed := microseconds(there - last.there); {
		case elapsed < least-clockStep:
			c.back++
			log.Warn("redis store: the server's clock was set back: no bucket refills until it has caught up",
				"node", addr, "by", (least - elapsed).Round(100*time.Millisecond))
		case elapsed > most+clockStep:
			c.forward++
			log.Warn("redis store: the server's clock ran ahead: it was set forward and buckets refilled for the difference, or this process was suspended",
				"node", addr, "by", (elapsed - most).Round(100*time.Millisecond))
		}
	}
	if c.seen == nil {
		c.seen = map[string]seenClock{}
	}
	c.seen[addr] = seenClock{there: there, here: now, slack: now.Sub(asked)}
}

// watchClocks looks at the servers' clocks until the store is closed.
func (s *Store) watchClocks() {
	for s.life.Err() == nil {
		s.lookAtClocks()
		rest(s.life, clockEvery)
	}
}

func (s *Store) lookAtClocks() {
	ctx, cancel := context.WithTimeout(s.life, s.config.Timeout)
	defer cancel()
	// Outside of a cluster, a replica that takes over is another server behind
	// the same name.
	nodes := map[string]rueidis.Client{"": s.client}
	if s.cluster {
		var err error
		if nodes, err = s.primaries(ctx); err != nil {
			return
		}
	}
	for addr, node := range nodes {
		asked := time.Now()
		if t, err := s.timeOf(ctx, node); err == nil {
			s.clocks.saw(addr, t, asked, s.config.Log)
		}
	}
}

// Stats are figures of a store.
type Stats struct {
	ClockBack    int64 // times a server's clock was set back
	ClockForward int64 // times one ran ahead of this process's
}

// Stats returns the store's figures since it was opened.
func (s *Store) Stats() Stats {
	s.clocks.mu.Lock()
	defer s.clocks.mu.Unlock()
	return Stats{ClockBack: s.clocks.back, ClockForward: s.clocks.forward}
}
