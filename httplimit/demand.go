package httplimit

import (
	"context"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/policy"
)

// demand collects what the request has to take.
func (g *Gate) demand(ctx context.Context, r *Request, c *Call) error {
	sets := c.Route.Sets(c.Tier)
	for i := range sets {
		set := &sets[i]
		entity, applies := entityOf(set, r, &c.Identity)
		if !applies {
			continue
		}
		if g.config.Stored == nil {
			c.take.Demands = set.Append(c.take.Demands, entity)
			c.Labels = append(c.Labels, set.Labels...)
			continue
		}
		var err error
		before := len(c.take.Demands)
		c.take.Demands, err = g.config.Stored(ctx, c.take.Demands, set, &c.Identity, entity, c.Tier.Name)
		if err != nil {
			return err
		}
		c.label(set, entity, before)
	}
	c.take.Tier = c.Tier.Name
	return nil
}

// lease makes the take a lease where the policy wants one, or where a limit
// needs it, which may be a stored one that the policy knows nothing of.
func (c *Call) lease() {
	needed := c.Route.Lease
	for i := range c.take.Demands {
		needed = needed || c.take.Demands[i].Limit.Algorithm == sluice.Concurrency
	}
	if needed {
		c.take.Lease, c.take.Keep = true, leaseKeep
	}
}

// label names the demands that Stored has added. A parent's limit bears its
// name, so that the two can be told apart.
func (c *Call) label(set *policy.Set, entity string, from int) {
	for i := from; i < len(c.take.Demands); i++ {
		key := &c.take.Demands[i].Key
		label := ""
		if key.Entity == entity {
			for j := range set.Demands {
				if set.Demands[j].Key.Limit == key.Limit {
					label = set.Labels[j]
				}
			}
		}
		if label == "" {
			label = set.Name
			if key.Limit != policy.DefaultLimit {
				label += "-" + key.Limit
			}
			if key.Entity != entity {
				label = key.Entity + "/" + label
			}
		}
		c.Labels = append(c.Labels, label)
	}
}

// entityOf is whose bucket a set takes from, and whether it applies at all.
func entityOf(set *policy.Set, r *Request, id *identity.Identity) (string, bool) {
	switch set.Kind {
	case policy.PerKey:
		return id.Key, id.Key != ""
	case policy.PerUser:
		return id.Entity, id.Kind != identity.ByAddress
	case policy.PerIP:
		return id.Address, true
	case policy.Everyone:
		return "", true
	case policy.PerHeader:
		switch values := r.Header[set.Source]; {
		case len(values) == 1 && values[0] != "":
			return set.Entity(values[0]), true
		case len(values) > 1: // whoever reads it after us might choose another one
			return set.Entity(""), true
		}
		return set.Entity(""), !set.SkipMissing
	case policy.PerClaim:
		value, ok := id.Claim(set.Source)
		return set.Entity(value), ok || !set.SkipMissing
	}
	return id.Entity, true
}
