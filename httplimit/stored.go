package httplimit

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/policy"
)

// UseCatalog makes the keys, tiers and limits that are stored in a catalog
// count. What is stored there beats the policy's numbers; for the policy's to
// count where nothing is stored, it has to be declared in the catalog
// ([catalog.Catalog.Declare] of [policy.Policy.Declaration]).
//
// Stored limits are looked up for callers who are known by a key or a token.
// Addresses and header values get those of their tier and of everybody: else
// whoever makes some up would have the catalog's database read for each.
func (c *Config) UseCatalog(cat *catalog.Catalog) {
	c.Verify = nil
	c.verifyIn = func(namespace string) identity.Verifier {
		namespace = stored(namespace)
		return func(ctx context.Context, key string) (identity.Verified, error) {
			k, err := cat.VerifyKey(ctx, key)
			switch {
			case errors.Is(err, catalog.ErrKey):
				return identity.Verified{}, identity.ErrNoKey
			case err != nil:
				return identity.Verified{}, err
			case k.Namespace != namespace:
				return identity.Verified{}, identity.ErrNoKey
			}
			return identity.Verified{Key: "key:" + k.ID, Entity: k.Entity, Tier: k.Tier, Scopes: k.Scopes}, nil
		}
	}
	c.TierOf = func(ctx context.Context, namespace, entity, tier string) (string, error) {
		r, err := cat.Resolve(ctx, catalog.Subject{Namespace: stored(namespace), Entity: entity, Tier: tier})
		if err != nil && unstorable(err) { // the tier that the token names, or the caller itself
			if r, err = cat.Resolve(ctx, catalog.Subject{Namespace: stored(namespace), Entity: entity}); err != nil && unstorable(err) {
				return tier, nil
			}
		}
		if err != nil {
			return "", err
		}
		return r.Tier, nil
	}
	c.Stored = func(ctx context.Context, dst []sluice.Demand, set *policy.Set, id *identity.Identity, entity, tier string) ([]sluice.Demand, error) {
		subject := catalog.Subject{Namespace: stored(set.Namespace()), Resource: set.Name, Tier: tier}
		if known(set, id) {
			subject.Entity = entity
		}
		r, err := resolve(ctx, cat, set, id, &subject)
		if err != nil {
			if slices.ContainsFunc(set.Demands, strict) {
				return dst, err
			}
			return set.Append(dst, entity), nil
		}
		return appendApplied(dst, set, r, &subject, entity), nil
	}
}

// resolve finds the limits of a set, and whose they are. A tier that the
// policy does not know counts if the catalog has limits for it.
func resolve(ctx context.Context, cat *catalog.Catalog, set *policy.Set, id *identity.Identity, subject *catalog.Subject) (*catalog.Resolution, error) {
	if id.Tier != "" && id.Tier != subject.Tier {
		own := *subject
		own.Tier = id.Tier
		r, err := lookUp(ctx, cat, set, &own)
		if err != nil && !unstorable(err) {
			return nil, err
		}
		if err == nil && has(r, own.Entity, sluice.LevelTier, sluice.LevelTierResource) {
			*subject = own
			return r, nil
		}
	}
	return lookUp(ctx, cat, set, subject)
}

func lookUp(ctx context.Context, cat *catalog.Catalog, set *policy.Set, subject *catalog.Subject) (*catalog.Resolution, error) {
	r, err := cat.Resolve(ctx, *subject)
	if err != nil && subject.Entity != "" && unstorable(err) {
		subject.Entity = "" // nothing can be stored about it, so it is as everybody
		r, err = cat.Resolve(ctx, *subject)
	}
	// What a tier has by default is for callers. It must not hide what holds
	// for an address or for everyone together.
	if err == nil && set.Kind > policy.PerUser && has(r, subject.Entity, sluice.LevelTier) {
		subject.Tier = ""
		r, err = cat.Resolve(ctx, *subject)
	}
	return r, err
}

// has says whether an entity has limits of one of these levels.
func has(r *catalog.Resolution, entity string, levels ...sluice.Level) bool {
	for i := range r.Applied {
		if a := &r.Applied[i]; a.Entity == entity && slices.Contains(levels, a.Level) {
			return true
		}
	}
	return false
}

// appendApplied adds the demands of limits that apply to dst. If the entity
// has none there, the policy's own numbers stand: at a reload the catalog may
// know a newer or an older policy than the one that decides.
func appendApplied(dst []sluice.Demand, set *policy.Set, r *catalog.Resolution, subject *catalog.Subject, entity string) []sluice.Demand {
	if !slices.ContainsFunc(r.Applied, func(a catalog.Applied) bool { return a.Entity == subject.Entity }) {
		dst = set.Append(dst, entity)
	}
	for i := range r.Applied {
		a := &r.Applied[i]
		owner := a.Entity
		if owner == subject.Entity {
			owner = entity
		}
		before := len(dst)
		dst = set.AppendLimit(dst, owner, a.Limit, a.Setting.Limit, a.Level)
		if len(dst) > before && (a.From == catalog.FromStore || a.From == catalog.FromOverride) {
			apply(&dst[before], &a.Setting)
		}
	}
	return dst
}

// apply makes what is stored about how a limit is applied count, too. What the
// policy says of the set or the endpoint stays.
func apply(d *sluice.Demand, s *catalog.Setting) {
	d.Shadow = d.Shadow || s.Shadow
	d.Critical = d.Critical || s.Critical
	if s.OnUnavailable != sluice.Degrade {
		d.OnUnavailable = s.OnUnavailable
	}
}

// unstorable says whether an error is about a name that no catalog can have.
func unstorable(err error) bool {
	var field *sluice.FieldError
	return errors.As(err, &field)
}

// stored is what a policy's namespace is called in a catalog, where all have
// a name.
func stored(namespace string) string { return cmp.Or(namespace, catalog.DefaultNamespace) }

// known says whether nobody can make up the entity that a set counts by.
func known(set *policy.Set, id *identity.Identity) bool {
	switch set.Kind {
	case policy.PerCaller, policy.PerUser, policy.PerKey:
		return id.Kind != identity.ByAddress
	case policy.PerClaim:
		return id.Kind == identity.ByToken
	}
	return false
}

// strict demands are not to be guessed at while the catalog is away.
func strict(d sluice.Demand) bool { return d.Critical || d.OnUnavailable == sluice.Deny }
