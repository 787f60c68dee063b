package failover

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/sluice-go/sluice"
)

// Config configures a [Store]. The zero Config is ready to use.
type Config struct {
	// Timeout is how long the store may take to answer a call. An earlier
	// deadline of the caller still applies. 0 means 250 ms.
	Timeout time.Duration

	// Failures is the number of consecutive failures that open the breaker.
	// Failures that happen together count as one. 0 means 3.
	Failures int

	// Successes is the number of consecutive successes that close it again.
	// 0 means 3.
	Successes int

	// Backoff is how long an open breaker keeps callers from asking the store.
	// It doubles with each failed attempt, up to MaxBackoff. Up to a tenth is
	// added at random, so that nodes do not ask in step. It ends early once the store
	// passes a health check; see [CheckEvery]. An outage shorter than Backoff
	// ends without the phases of recovery. 0 means 5 s and 60 s.
	Backoff    time.Duration
	MaxBackoff time.Duration

	// Testing, Partial and Stabilizing are the phases between a closed
	// breaker and normal operation. Fields that are 0 mean:
	//
	//	Testing      5 % of keys, 5 successes and 10 s
	//	Partial      25 %, 10 successes and 20 s
	//	Stabilizing  60 %, 20 successes and 30 s, at a rate of 95 %
	Testing, Partial, Stabilizing Phase

	// Quotas are what an entity may take locally, by the take's tier. Tiers
	// that are not named share the numbers of the tier "". Nil means
	// [DefaultQuotas]; a map without "" gets theirs.
	Quotas map[string]Quota

	// Nodes returns how many nodes share the store, as far as is known; see
	// [Census]. While the store is away, a limit that all callers share, whose
	// key has no entity, is divided by it. Nil means 1.
	Nodes func() int

	// Shards reports which keys fail together. Nil means all of them.
	Shards Shards

	// MaxBuckets bounds the local quotas that are kept. Full ones are
	// forgotten first; if none is full, new entities share one quota for each
	// namespace and tier. 0 means 1 million, which use about 150 MB if they
	// are ever needed.
	MaxBuckets int

	// Log receives one line for each change of state. Nil means slog.Default.
	Log *slog.Logger

	// Rand replaces the source of the random part of a back-off, for tests: it
	// returns a number from 0 up to 1.
	Rand func() float64
}

// Phase is one step of recovery: the share of keys that the store decides
// again, and what must be seen before the next step.
type Phase struct {
	Share     int           // percent of the keys
	Successes int           // 19 make up for a failure
	For       time.Duration // at least
	Rate      int           // percent of calls that succeeded since the breaker closed, unless none failed for twice For
}

// Quota is what an entity may take from this node while its store is away.
type Quota struct {
	Limit sluice.Limit

	// Factor is what a cost of one token takes, in thousandths: 1500 makes
	// everything cost half as much again. 0 means 1000.
	Factor int64

	// Bridge is the length of an outage that callers within their limits should
	// not notice. Before the quota is asked, each limit lets pass what it would in
	// that time, or a twentieth of what it lets pass at once if that is more,
	// divided by the number of nodes. What was used of that comes back within
	// 5 minutes. So an outage adds that much to a limit, beside the quota, however
	// long it lasts. A node's part of the limit itself would add a whole day's
	// worth to a limit of a day for each short outage. 0 means that the quota
	// alone counts. At most a minute.
	Bridge time.Duration
}

// DefaultQuotas returns the quotas of the tiers enterprise, pro, free and, under "",
// for everybody else. They bridge outages of 5 s.
func DefaultQuotas() map[string]Quota {
	const bridge = 5 * time.Second
	return map[string]Quota{
		"enterprise": {Limit: sluice.Per(100, time.Minute), Bridge: bridge},
		"pro":        {Limit: sluice.Per(50, time.Minute), Bridge: bridge},
		"free":       {Limit: sluice.Per(10, time.Minute), Factor: 1500, Bridge: bridge},
		"":           {Limit: sluice.Per(5, time.Minute), Factor: 2000, Bridge: bridge},
	}
}

func (c Config) withDefaults() Config {
	or(&c.Timeout, 250*time.Millisecond)
	or(&c.Failures, 3)
	or(&c.Successes, 3)
	or(&c.Backoff, 5*time.Second)
	or(&c.MaxBackoff, max(c.Backoff, 60*time.Second))
	or(&c.MaxBuckets, 1_000_000)
	c.Testing.fill(Phase{Share: 5, Successes: 5, For: 10 * time.Second})
	c.Partial.fill(Phase{Share: 25, Successes: 10, For: 20 * time.Second})
	c.Stabilizing.fill(Phase{Share: 60, Successes: 20, For: 30 * time.Second, Rate: 95})
	c.Quotas = maps.Clone(c.Quotas)
	if c.Quotas == nil {
		c.Quotas = DefaultQuotas()
	}
	if _, ok := c.Quotas[""]; !ok {
		c.Quotas[""] = DefaultQuotas()[""]
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Nodes == nil {
		c.Nodes = func() int { return 1 }
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	return c
}

func (p *Phase) fill(defaults Phase) {
	or(&p.Share, defaults.Share)
	or(&p.Successes, defaults.Successes)
	or(&p.For, defaults.For)
	or(&p.Rate, defaults.Rate)
}

// or gives a field that is 0 its default.
func or[T comparable](field *T, value T) { *field = cmp.Or(*field, value) }

func (c *Config) validate() error {
	switch {
	case c.Timeout < 0:
		return fmt.Errorf("failover: Timeout: %s: must be above 0", c.Timeout)
	case c.Failures < 0:
		return fmt.Errorf("failover: Failures: %d: must be above 0", c.Failures)
	case c.Successes < 0:
		return fmt.Errorf("failover: Successes: %d: must be above 0", c.Successes)
	case c.Backoff < 0 || c.MaxBackoff < c.Backoff:
		return fmt.Errorf("failover: Backoff: %s: must be above 0 and at most MaxBackoff, %s", c.Backoff, c.MaxBackoff)
	case c.MaxBuckets < 0:
		return fmt.Errorf("failover: MaxBuckets: %d: must be above 0", c.MaxBuckets)
	}
	before := 0
	for _, s := range []State{Testing, Partial, Stabilizing} {
		p := c.phase(s)
		if p.Share < max(before, 1) || p.Share > 100 {
			return fmt.Errorf("failover: %s.Share: %d: must be 1 to 100, and not less than in the phase before", s.field(), p.Share)
		}
		before = p.Share
		switch {
		case p.Successes < 0:
			return fmt.Errorf("failover: %s.Successes: %d: must be above 0", s.field(), p.Successes)
		case p.For < 0:
			return fmt.Errorf("failover: %s.For: %s: must be above 0", s.field(), p.For)
		case p.Rate < 0 || p.Rate > 100:
			return fmt.Errorf("failover: %s.Rate: %d: must be 0 to 100", s.field(), p.Rate)
		}
	}
	return nil
}

// phase is the settings of a phase of recovery.
func (c *Config) phase(s State) *Phase {
	switch s {
	case Testing:
		return &c.Testing
	case Partial:
		return &c.Partial
	}
	return &c.Stabilizing
}
