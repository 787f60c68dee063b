package client

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/catalog"
)

// NewKey is an API key that was just made.
type NewKey struct {
	catalog.Key
	Secret string `json:"secret"` // the key in clear; it is shown this once
}

// Keys lists the keys of an entity, or of all if entity is "".
func (c *Client) Keys(ctx context.Context, entity string, p Page) (catalog.KeyPage, error) {
	return ask[catalog.KeyPage](ctx, c, get(p.values("entity", entity), "keys"))
}

// Key returns an API key, without its secret.
func (c *Client) Key(ctx context.Context, id string) (catalog.Key, error) {
	return ask[catalog.Key](ctx, c, get(nil, "keys", id))
}

// CreateKey creates an API key for k.Entity, of k's name, tier, scopes and
// expiry. The scopes sluice:take, sluice:read, sluice:service and sluice:admin let it use the
// server. If there is no such entity, create makes one; else it is an error.
func (c *Client) CreateKey(ctx context.Context, k catalog.Key, create bool) (NewKey, error) {
	return ask[NewKey](ctx, c, post(struct {
		Entity  string    `json:"entity"`
		Name    string    `json:"name,omitempty"`
		Tier    string    `json:"tier,omitempty"`
		Scopes  []string  `json:"scopes,omitempty"`
		Expires time.Time `json:"expires,omitzero"`
		Create  bool      `json:"create,omitempty"`
	}{k.Entity, k.Name, k.Tier, k.Scopes, k.Expires, create}, "keys"))
}

// KeyChange is what to change of a key; nil leaves it as it is.
type KeyChange struct {
	Name    *string    `json:"name,omitempty"`
	Tier    *string    `json:"tier,omitempty"`
	Scopes  *[]string  `json:"scopes,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
}

// ChangeKey changes a key.
func (c *Client) ChangeKey(ctx context.Context, id string, change KeyChange, version int64) (catalog.Key, error) {
	return ask[catalog.Key](ctx, c, call{method: "PATCH", path: at("keys", id), version: version, body: change})
}

// RevokeKey ends a key for good.
func (c *Client) RevokeKey(ctx context.Context, id string) (catalog.Key, error) {
	return ask[catalog.Key](ctx, c, post(nil, "keys", id, "revoke"))
}

// RotateKey creates a key to replace an old one, which keeps working for grace;
// 0 means a week.
func (c *Client) RotateKey(ctx context.Context, id string, grace time.Duration) (NewKey, error) {
	return ask[NewKey](ctx, c, post(struct {
		Grace string `json:"grace,omitempty"`
	}{span(grace)}, "keys", id, "rotate"))
}

// DeleteKey removes a key and what is known about it.
func (c *Client) DeleteKey(ctx context.Context, id string) error {
	return c.do(ctx, remove(0, nil, "keys", id), nil)
}
