package limitstore

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluice-go/sluice/internal/backoff"
)

// clocks compares the servers' time with this process's monotonic one, to notice
// when a server's clock is set: no bucket goes back in time, but one refills for
// as long as the clock is set forward. Takes are not bothered with it. The
// servers are asked now and then instead, so it also notices when nothing was
// heard of one for long: buckets have refilled meanwhile.
type clocks struct {
	mu      sync.Mutex
	seen    map[string]seenClock // by the node's address in a cluster, "" elsewhere
	back    int64
	forward int64
	gaps    int64
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

	// longGap is how long a server must not have been heard of for that to be
	// worth a line in the log: several looks.
	longGap = 15 * time.Second
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
		case elapsed > longGap:
			c.gaps++
			log.Warn("redis store: nothing was heard of the server for long: buckets have refilled meanwhile, to their capacity at most",
				"node", addr, "for", elapsed.Round(100*time.Millisecond))
		}
	}
	if c.seen == nil {
		c.seen = map[string]seenClock{}
	}
	c.seen[addr] = seenClock{there: there, here: now, slack: now.Sub(asked)}
}

// watchClocks looks at the servers' clocks until the store is closed.
func (s *Store) watchClocks() {
	for s.db.Life().Err() == nil {
		s.lookAtClocks()
		backoff.Sleep(s.db.Life(), backoff.Jitter(clockEvery))
	}
}

// lookAtClocks asks all servers at once, each with a time-out of its own, so
// that one that hangs does not keep the others from being asked.
func (s *Store) lookAtClocks() {
	// Outside of a cluster, a replica that takes over is another server behind
	// the same name.
	nodes := map[string]rueidis.Client{"": s.db.Client}
	if s.db.Cluster {
		nodes = s.db.Client.Nodes()
	}
	var looks sync.WaitGroup
	for addr, node := range nodes {
		looks.Go(func() {
			ctx, cancel := context.WithTimeout(s.db.Life(), s.db.Config.Timeout)
			defer cancel()
			if s.db.Cluster && !isPrimary(ctx, node) {
				return
			}
			asked := time.Now()
			if t, err := s.timeOf(ctx, node); err == nil {
				s.clocks.saw(addr, t, asked, s.db.Config.Log)
			}
		})
	}
	looks.Wait()
}

// Stats are counts since the store was opened.
type Stats struct {
	ClockBack    int64 // times a server's clock was set back
	ClockForward int64 // times one ran ahead of this process's
	ClockGaps    int64 // times a server was not heard of for over 15 s

	// Lists read from the replica, and those that were not because it was too far
	// behind or not there; and how far it is behind at most, if that is known.
	ReplicaReads, ReplicaSkips int64
	ReplicaLag                 time.Duration
	ReplicaLagKnown            bool
}

// Stats returns the counts of the store.
func (s *Store) Stats() Stats {
	s.clocks.mu.Lock()
	defer s.clocks.mu.Unlock()
	st := Stats{ClockBack: s.clocks.back, ClockForward: s.clocks.forward, ClockGaps: s.clocks.gaps}
	st.ReplicaReads, st.ReplicaSkips = s.replica.Counts()
	st.ReplicaLag, st.ReplicaLagKnown = s.replica.Lag()
	return st
}
