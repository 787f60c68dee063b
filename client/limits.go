package client

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// scopePath is where the limits of a scope are.
func scopePath(s catalog.Scope) []string {
	path := []string{"limits", "system"}
	switch {
	case s.Entity != "":
		path = []string{"limits", "entities", s.Entity}
	case s.Tier != "":
		path = []string{"limits", "tiers", s.Tier}
	case s.Resource != "":
		return []string{"limits", "resources", s.Resource}
	}
	if s.Resource != "" {
		path = append(path, s.Resource)
	}
	return path
}

// checkScope keeps a wrong scope from being read as another.
func checkScope(s catalog.Scope) error {
	if s.Entity != "" && s.Tier != "" {
		return &sluice.FieldError{Field: "scope.tier", Value: s.Tier, Reason: "limits are for an entity or for a tier, not for both"}
	}
	return nil
}

// LimitsQuery selects stored limits at one level: "entity" (the default),
// "tier", "resource" or "system". Entity or Tier narrows it to one; Resource
// to the limits that entities or tiers have on it.
type LimitsQuery struct {
	Level    string
	Entity   string
	Tier     string
	Resource string
	Page
}

// ListLimits lists stored limits.
func (c *Client) ListLimits(ctx context.Context, q LimitsQuery) (catalog.LimitsPage, error) {
	return ask[catalog.LimitsPage](ctx, c, get(q.values("level", q.Level, "entity", q.Entity, "tier", q.Tier, "resource", q.Resource), "limits"))
}

// Limits returns the limits stored at one place.
func (c *Client) Limits(ctx context.Context, s catalog.Scope) (catalog.StoredLimits, error) {
	if err := checkScope(s); err != nil {
		return catalog.StoredLimits{}, err
	}
	return ask[catalog.StoredLimits](ctx, c, get(nil, scopePath(s)...))
}

// SetLimits stores all limits of a place, instead of what was there.
func (c *Client) SetLimits(ctx context.Context, s catalog.Scope, limits catalog.Limits, version int64) (catalog.StoredLimits, error) {
	if err := checkScope(s); err != nil {
		return catalog.StoredLimits{}, err
	}
	return ask[catalog.StoredLimits](ctx, c, put(version, map[string]catalog.Limits{"limits": limits}, scopePath(s)...))
}

// RemoveLimits removes the limits of a place; the next level's apply then.
func (c *Client) RemoveLimits(ctx context.Context, s catalog.Scope, version int64) error {
	if err := checkScope(s); err != nil {
		return err
	}
	return c.do(ctx, remove(version, nil, scopePath(s)...), nil)
}

// Overrides lists the overrides of an entity, or of all if entity is "".
func (c *Client) Overrides(ctx context.Context, entity string, p Page) (catalog.OverridePage, error) {
	return ask[catalog.OverridePage](ctx, c, get(p.values("entity", entity), "overrides"))
}

// SetOverride sets another number for one limit of one entity until o.Until.
// A reason must be given, in o or by [Client.Because].
func (c *Client) SetOverride(ctx context.Context, o catalog.Override) (catalog.Override, error) {
	onUnavailable := ""
	if o.Setting.OnUnavailable != sluice.Degrade {
		onUnavailable = o.Setting.OnUnavailable.String()
	}
	var announce *bool // an older server does not know it
	if o.Setting.Unannounced {
		announce = new(bool)
	}
	return ask[catalog.Override](ctx, c, put(0, struct {
		Rule          sluice.Limit `json:"rule"`
		OnUnavailable string       `json:"onUnavailable,omitempty"`
		Critical      bool         `json:"critical,omitempty"`
		Shadow        bool         `json:"shadow,omitempty"`
		Announce      *bool        `json:"announce,omitempty"`
		Resource      string       `json:"resource,omitempty"`
		Until         time.Time    `json:"until"`
		Reason        string       `json:"reason,omitempty"`
	}{
		Rule: o.Setting.Limit, OnUnavailable: onUnavailable, Critical: o.Setting.Critical, Shadow: o.Setting.Shadow, Announce: announce,
		Resource: o.Resource, Until: o.Until, Reason: o.Reason,
	}, "overrides", o.Entity, o.Limit))
}

// RemoveOverride ends an override before its time. resource is "" for one
// that is for every resource.
func (c *Client) RemoveOverride(ctx context.Context, entity, limit, resource string) error {
	return c.do(ctx, remove(0, values("resource", resource), "overrides", entity, limit), nil)
}
