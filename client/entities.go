package client

import (
	"context"
	"net/url"

	"github.com/sluice-go/sluice/catalog"
)

// A change of something with a Version changes only that version, and is
// refused with catalog.ErrConflict if somebody else has changed it since; a
// version of 0 changes whatever is there.

// entityJSON is what can be said about an entity.
type entityJSON struct {
	ID       string            `json:"id"`
	Name     string            `json:"name,omitempty"`
	Parent   string            `json:"parent,omitempty"`
	Cascade  bool              `json:"cascade,omitempty"`
	Tier     string            `json:"tier,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func entityBody(e *catalog.Entity) entityJSON {
	return entityJSON{ID: e.ID, Name: e.Name, Parent: e.Parent, Cascade: e.Cascade, Tier: e.Tier, Metadata: e.Metadata}
}

// EntityQuery selects entities: all, the children of a parent, or those of a
// tier.
type EntityQuery struct {
	Parent string
	Tier   string
	Page
}

// Entities lists entities in order of id.
func (c *Client) Entities(ctx context.Context, q EntityQuery) (catalog.EntityPage, error) {
	return ask[catalog.EntityPage](ctx, c, get(q.values("parent", q.Parent, "tier", q.Tier), "entities"))
}

// Entity returns an entity.
func (c *Client) Entity(ctx context.Context, id string) (catalog.Entity, error) {
	return ask[catalog.Entity](ctx, c, get(nil, "entities", id))
}

// CreateEntity creates an entity; catalog.ErrExists if there is one of that
// id.
func (c *Client) CreateEntity(ctx context.Context, e catalog.Entity) (catalog.Entity, error) {
	return ask[catalog.Entity](ctx, c, post(entityBody(&e), "entities"))
}

// PutEntity stores everything that e says, in place of what is there.
func (c *Client) PutEntity(ctx context.Context, e catalog.Entity) (catalog.Entity, error) {
	return ask[catalog.Entity](ctx, c, put(e.Version, entityBody(&e), "entities", e.ID))
}

// childrenNames are how the server calls them.
var childrenNames = map[catalog.Children]string{
	catalog.RefuseChildren: "", catalog.DeleteChildren: "delete", catalog.LiftChildren: "lift",
}

// DeleteEntity deletes an entity with its limits, overrides and keys.
func (c *Client) DeleteEntity(ctx context.Context, id string, version int64, children catalog.Children) error {
	return c.do(ctx, remove(version, values("children", childrenNames[children]), "entities", id), nil)
}

// Erased is how much was removed.
type Erased struct {
	catalog.Removed
	Buckets int `json:"buckets"`
	Replays int `json:"replays"` // stored responses
	Slots   int `json:"slots"`   // events that had one
}

// erase sends a request until nothing is left, and adds up what it removes. It
// can be much, and the server works on it for a few seconds at a time.
func (c *Client) erase(ctx context.Context, query url.Values, segments ...string) (total Erased, err error) {
	for {
		answer, err := ask[struct {
			Erased
			Done bool
			Next string
		}](ctx, c, remove(0, query, segments...))
		if err != nil {
			return total, err
		}
		total.Records += answer.Records
		total.Usage += answer.Usage
		total.Events += answer.Events
		total.Buckets += answer.Buckets
		total.Replays += answer.Replays
		total.Slots += answer.Slots
		if answer.Done {
			return total, nil
		}
		query.Set("cursor", answer.Next)
	}
}

// EraseEntity removes everything about an entity: also what it has used, what
// was written down about it, its buckets and the responses stored for it. If it
// is interrupted, call it again.
func (c *Client) EraseEntity(ctx context.Context, id string, children catalog.Children) (Erased, error) {
	return c.erase(ctx, values("erase", "true", "children", childrenNames[children]), "entities", id)
}

// Tiers lists stored tiers in order of name.
func (c *Client) Tiers(ctx context.Context, p Page) (catalog.TierPage, error) {
	return ask[catalog.TierPage](ctx, c, get(p.values(), "tiers"))
}

// Tier returns a stored tier.
func (c *Client) Tier(ctx context.Context, name string) (catalog.Tier, error) {
	return ask[catalog.Tier](ctx, c, get(nil, "tiers", name))
}

// PutTier creates a tier or changes its description.
func (c *Client) PutTier(ctx context.Context, t catalog.Tier) (catalog.Tier, error) {
	return ask[catalog.Tier](ctx, c, put(t.Version, map[string]string{"description": t.Description}, "tiers", t.Name))
}

// DeleteTier deletes a tier with its limits; catalog.ErrInUse while entities
// or keys have it.
func (c *Client) DeleteTier(ctx context.Context, name string, version int64) error {
	return c.do(ctx, remove(version, nil, "tiers", name), nil)
}

// FlushCache makes every node forget the limits and keys that it remembers, of
// all namespaces.
func (c *Client) FlushCache(ctx context.Context) error {
	return c.do(ctx, post(nil, "cache", "flush"), nil)
}

// Namespaces lists namespaces in order of name.
func (c *Client) Namespaces(ctx context.Context, p Page) (catalog.NamespacePage, error) {
	return ask[catalog.NamespacePage](ctx, c, get(p.values(), "namespaces"))
}

// Namespace returns a namespace.
func (c *Client) Namespace(ctx context.Context, name string) (catalog.Namespace, error) {
	return ask[catalog.Namespace](ctx, c, get(nil, "namespaces", name))
}

// PutNamespace creates a namespace; one that is there stays as it is.
func (c *Client) PutNamespace(ctx context.Context, name, description string) (catalog.Namespace, error) {
	return ask[catalog.Namespace](ctx, c, put(0, map[string]string{"description": description}, "namespaces", name))
}

// DeleteNamespace removes a namespace with everything in it. It can take long:
// if it is interrupted, call it again.
func (c *Client) DeleteNamespace(ctx context.Context, name string) (Erased, error) {
	return c.erase(ctx, values(), "namespaces", name)
}
