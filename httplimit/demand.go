package httplimit

import (
	"context"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/policy"
)

// look finds the tier of the caller, and the limits of the sets that count
// callers.
func (g *Gate) look(ctx context.Context, c *Call) error {
	found, err := g.resolve(ctx, c, 0, catalog.Subject{Entity: c.Identity.Entity, Tier: c.Identity.Tier, Resources: c.Route.Callers})
	if err != nil {
		return err
	}
	c.Tier, c.found = found.Tier, append(c.found[:0], found)
	return nil
}

// resolve asks for the limits of a group of sets. If it cannot be known what is
// stored, those of the policy apply, unless a set is not to be guessed at.
func (g *Gate) resolve(ctx context.Context, c *Call, group int, s catalog.Subject) (*catalog.Resolution, error) {
	s.Namespace, s.File = c.Policy.Namespace, c.Policy.Declared
	found, err := g.config.Resolver.Resolve(ctx, s)
	if err == nil {
		return found, nil
	}
	for i := range c.Route.Sets {
		if set := &c.Route.Sets[i]; set.Group == group && set.Strict() {
			return nil, err
		}
	}
	if group == 0 && ctx.Err() == nil {
		g.config.Log.WarnContext(ctx, "cannot look up stored limits; using those of the policy", "error", err)
	}
	return g.declared.Resolve(ctx, s)
}

// demand collects what the request has to take. It looks up each group of sets
// once.
func (g *Gate) demand(ctx context.Context, r *Request, c *Call) error {
	sets := c.Route.Sets
	for i := range sets {
		set := &sets[i]
		entity, applies := entityOf(set, r, &c.Identity)
		if !applies {
			continue
		}
		for len(c.found) <= set.Group {
			c.found = append(c.found, nil)
		}
		found := c.found[set.Group]
		if found == nil {
			subject := catalog.Subject{Tier: c.Tier, Resources: set.Resources}
			if set.Kind == policy.PerKey || set.Kind == policy.PerClaim {
				subject.Entity = entity
			}
			var err error
			if found, err = g.resolve(ctx, c, set.Group, subject); err != nil {
				return err
			}
			c.found[set.Group] = found
		}
		c.take.Demands = set.Append(c.take.Demands, found, entity)
		c.Labels = found.Labels(c.Labels, set.Name)
	}
	c.take.Tier = c.Tier
	return nil
}

// lease makes the take a lease where the cost is settled later, or where a
// limit needs one.
func (c *Call) lease() {
	needed := len(c.Route.Settle) > 0
	for i := range c.take.Demands {
		needed = needed || c.take.Demands[i].Limit.Algorithm == sluice.Concurrency
	}
	if needed && !c.take.Peek {
		c.take.Lease, c.take.Keep = true, leaseKeep
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
