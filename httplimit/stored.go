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
	current := c.Policy
	c.Verify = func(ctx context.Context, key string) (identity.Verified, error) {
		k, err := cat.VerifyKey(ctx, key)
		switch {
		case errors.Is(err, catalog.ErrKey):
			return identity.Verified{}, identity.ErrNoKey
		case err != nil:
			return identity.Verified{}, err
		case k.Namespace != stored(current().Namespace):
			return identity.Verified{}, identity.ErrNoKey
		}
		return identity.Verified{Key: "key:" + k.ID, Entity: k.Entity, Tier: k.Tier, Scopes: k.Scopes}, nil
	}
	c.TierOf = func(ctx context.Context, namespace, entity, tier string) (string, error) {
		r, err := cat.Resolve(ctx, catalog.Subject{Namespace: stored(namespace), Entity: entity, Tier: tier})
		if err != nil {
			return "", err
		}
		return r.Tier, nil
	}
	c.Stored = func(ctx context.Context, dst []sluice.Demand, set *policy.Set, id *identity.Identity, entity, tier string) ([]sluice.Demand, error) {
		subject := catalog.Subject{Namespace: stored(current().Namespace), Resource: set.Name, Tier: tier}
		if known(set, id) {
			subject.Entity = entity
		}
		r, err := cat.Resolve(ctx, subject)
		if err != nil {
			if slices.ContainsFunc(set.Demands, strict) {
				return dst, err
			}
			return set.Append(dst, entity), nil
		}
		for i := range r.Applied {
			a := &r.Applied[i]
			owner := a.Entity
			if owner == subject.Entity {
				owner = entity
			}
			dst = set.AppendLimit(dst, owner, a.Limit, a.Setting.Limit, a.Level)
		}
		return dst, nil
	}
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
