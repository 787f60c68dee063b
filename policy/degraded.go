package policy

import (
	"cmp"
	"math"

	"github.com/sluice-go/sluice/failover"
)

// others is the name of the quota for tiers that have none.
const others = "others"

// degraded makes the failover package's configuration of the file's.
func (c *compiler) degraded() {
	f := &c.file.Degraded
	config := failover.Config{
		Timeout: f.Timeout, Failures: f.Failures, Successes: f.Successes,
		Backoff: f.Backoff, MaxBackoff: f.MaxBackoff, MaxBuckets: f.MaxBuckets,
	}
	for _, phase := range []struct {
		from *phase
		to   *failover.Phase
	}{{f.Testing, &config.Testing}, {f.Partial, &config.Partial}, {f.Stabilizing, &config.Stabilizing}} {
		if phase.from != nil {
			*phase.to = failover.Phase{Share: phase.from.Share, Successes: phase.from.Successes, For: phase.from.For, Rate: phase.from.Rate}
		}
	}
	share := 0
	for _, phase := range []struct {
		name  string
		phase *failover.Phase
		rule  int
	}{{"testing", &config.Testing, 5}, {"partial", &config.Partial, 25}, {"stabilizing", &config.Stabilizing, 60}} {
		now := cmp.Or(phase.phase.Share, phase.rule)
		if now < share {
			c.add("degraded."+phase.name+".share", "is %d, and no less than in the phase before, %d, was expected", now, share)
		}
		share = now
	}
	if f.MaxBackoff != 0 && f.Backoff > f.MaxBackoff {
		c.add("degraded.max_backoff", "is %s, which is less than the back-off it bounds, %s", f.MaxBackoff, f.Backoff)
	}
	if f.Quotas.len() > 0 {
		config.Quotas = map[string]failover.Quota{}
	}
	for name, q := range f.Quotas.all() {
		tier := name
		if name == others {
			tier = ""
		} else if c.file.Tiers.get(name) == nil {
			names := append([]string{others}, c.file.Tiers.keys...)
			c.addKey("degraded.quotas."+clip(name), name, names, "%q is not a tier; %s", clip(name), among(names))
		}
		config.Quotas[tier] = failover.Quota{Limit: q.Limit, Factor: int64(math.Round(q.Cost * 1000))}
	}
	c.policy.failover = config
}
