package httplimit

import (
	"time"

	"github.com/sluice-go/sluice"
)

// The gate's own buckets bear names that no set can have.
const (
	emergencyResource = "$emergency"
	guessResource     = "$invalid-credentials"
)

// banned reports whether the caller is banned, by its own name or its address.
func (g *Gate) banned(c *Call) bool {
	if c.Policy.Abuse.Ban == nil {
		return false
	}
	left := g.config.Abuse.Banned(c.Identity.Entity)
	if c.Identity.Address != c.Identity.Entity {
		left = max(left, g.config.Abuse.Banned(c.Identity.Address))
	}
	if left <= 0 {
		return false
	}
	c.Outcome, c.RetryAfter = Banned, max(left, time.Second)
	return true
}

// emergency adds a stricter limit for a caller who sends far more than usual.
func (g *Gate) emergency(c *Call) {
	e := c.Policy.Abuse.Emergency
	if e == nil || !g.config.Abuse.Emergency(c.Identity.Entity) {
		return
	}
	c.take.Tier = c.Tier
	c.take.Demands = append(c.take.Demands, sluice.Demand{
		Key:   sluice.Key{Namespace: c.Policy.Namespace, Entity: c.Identity.Entity, Resource: emergencyResource, Limit: "requests"},
		Limit: e.Limit, Cost: sluice.Tokens(1),
	})
	c.Labels = append(c.Labels, "emergency")
}

// seen tells the guard of the request, unless it does not pass for the store's
// sake: whoever tries again then is not to blame.
func (g *Gate) seen(c *Call) {
	a := &c.Policy.Abuse
	away := c.Outcome == Unavailable || c.Outcome == Refused && c.Decision.Source >= sluice.Degraded
	if (a.Ban != nil || a.Emergency != nil) && !away {
		refused := c.Outcome == Refused || c.Outcome == Unauthenticated
		g.config.Abuse.Seen(a, c.Identity.Entity, refused)
	}
}
