package client

import (
	"context"
	"time"
)

// Sanction is what is done about a caller who goes on and on, and until when.
type Sanction struct {
	Entity string    `json:"entity"`
	Kind   string    `json:"kind"` // ban or emergency
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
}

// SanctionList is all sanctions in force, ordered by when they end.
type SanctionList struct {
	Sanctions []Sanction `json:"sanctions"`
}

// Lifted reports whether there was a sanction to lift.
type Lifted struct {
	Lifted bool `json:"lifted"`
}

// Sanctions lists who is banned or under the emergency limit.
func (c *Client) Sanctions(ctx context.Context) (SanctionList, error) {
	return ask[SanctionList](ctx, c, get(nil, "sanctions"))
}

// LiftSanction ends every sanction on an entity, on all nodes, and reports whether
// there was one.
func (c *Client) LiftSanction(ctx context.Context, entity string) (bool, error) {
	answer, err := ask[Lifted](ctx, c, remove(0, nil, "sanctions", entity))
	return answer.Lifted, err
}
