package httplimit

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/identity"
)

// Keys returns a verifier of the API keys that are stored in a catalog, for
// [Config.Verify].
func Keys(c *catalog.Catalog) identity.Verifier {
	return func(ctx context.Context, key string) (identity.Verified, error) {
		k, err := c.VerifyKey(ctx, key)
		if errors.Is(err, catalog.ErrKey) {
			err = identity.ErrNoKey
		}
		if err != nil {
			return identity.Verified{}, err
		}
		return identity.Verified{Namespace: k.Namespace, Key: "key:" + k.ID, Entity: k.Entity, Tier: k.Tier, Scopes: k.Scopes}, nil
	}
}

// verifier is Config.Verify for the keys of one namespace.
func (g *Gate) verifier(namespace string) identity.Verifier {
	return func(ctx context.Context, key string) (identity.Verified, error) {
		v, err := g.config.Verify(ctx, key)
		if err == nil && v.Namespace != "" && v.Namespace != namespace {
			return identity.Verified{}, identity.ErrNoKey
		}
		return v, err
	}
}
