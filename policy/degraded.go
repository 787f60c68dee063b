package policy

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// Degraded is what the file says about outages of the store. Fields that are 0
// take the defaults of package failover.
type Degraded struct {
	Timeout     time.Duration    `yaml:"timeout" max:"1m" doc:"How long the store may take to answer. Default: 250ms."`
	Failures    int              `yaml:"failures" min:"1" max:"1000" doc:"How many in a row open the circuit breaker. Default: 3."`
	Successes   int              `yaml:"successes" min:"1" max:"1000" doc:"How many in a row close it. Default: 3."`
	Backoff     time.Duration    `yaml:"backoff" max:"1h" doc:"For how long an open breaker asks nothing; it doubles up to max_backoff. Default: 5s."`
	MaxBackoff  time.Duration    `yaml:"max_backoff" max:"24h" doc:"Default: 60s."`
	Testing     Phase            `yaml:"testing" doc:"First phase of recovery. Default: 5 % of keys, 5 successes, 10s."`
	Partial     Phase            `yaml:"partial" doc:"Second phase. Default: 25 %, 10 successes, 20s."`
	Stabilizing Phase            `yaml:"stabilizing" doc:"Third phase. Default: 60 %, 20 successes, 30s at a rate of 95 %."`
	Quotas      map[string]Quota `yaml:"quotas" doc:"What a caller may take from each node meanwhile, by tier. The tier others is for all that are not named."`
	MaxBuckets  int              `yaml:"max_buckets" min:"1" max:"100000000" doc:"How many local quotas are kept. Read when a node starts. Default: 1000000."`
}

// Phase is one phase of recovery.
type Phase struct {
	Share     int           `yaml:"share" min:"1" max:"100" doc:"Percent of the keys that the store is asked about."`
	Successes int           `yaml:"successes" min:"1" max:"1000000" doc:"How many end the phase; 19 make up for a failure,"`
	For       time.Duration `yaml:"for" max:"24h" doc:"after at least this time,"`
	Rate      int           `yaml:"rate" min:"1" max:"100" doc:"if this percentage of calls succeeded."`
}

// Quota is what a caller may take from each node: in a file a limit, or a
// limit with a cost factor.
type Quota struct {
	Limit sluice.Limit `yaml:"limit,required" doc:"What a caller may take."`
	Cost  float64      `yaml:"cost" min:"0.001" max:"1000" doc:"Every cost is multiplied by this. Default: 1."`
}

// others is the name of the quota for tiers that have none. In [Degraded] it
// is "".
const others = "others"

func (c *compiler) degraded() {
	d := &c.file.Degraded
	share := 0
	for _, p := range []struct {
		name  string
		phase *Phase
		rule  int
	}{{"testing", &d.Testing, 5}, {"partial", &d.Partial, 25}, {"stabilizing", &d.Stabilizing, 60}} {
		now := cmp.Or(p.phase.Share, p.rule)
		if now < share {
			c.add("degraded."+p.name+".share", "is %d, and no less than in the phase before, %d, was expected", now, share)
		}
		share = now
	}
	if d.MaxBackoff != 0 && d.Backoff > d.MaxBackoff {
		c.add("degraded.max_backoff", "is %s, which is less than the back-off it bounds, %s", d.MaxBackoff, d.Backoff)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Quotas)) {
		if name != others && c.file.Tiers.get(name) == nil {
			names := append([]string{others}, c.file.Tiers.keys...)
			c.addKey("degraded.quotas."+excerpt.Of(name), name, names, "%q is not a tier; %s", excerpt.Of(name), among(names))
		}
	}
	if q, ok := d.Quotas[others]; ok {
		d.Quotas[""] = q
		delete(d.Quotas, others)
	}
	c.policy.Degraded = *d
}
