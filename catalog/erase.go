package catalog

import (
	"context"
	"errors"
)

const erased = "entity.erase"

// Erase removes everything about an entity, whether or not it has a record:
// itself, its limits, overrides and keys, its usage, and the audit events
// about it, but for one that says that it was erased, by whom and why. It is
// done in steps: if it is interrupted, call it again.
//
// What nodes have counted in the last second is written after that; buckets
// are the limiter's, see [sluice.Limiter.Reset].
func (e *Editor) Erase(ctx context.Context, id string, children Children) error {
	if children == DeleteChildren {
		// One after the other, each as a whole, so that it can be resumed.
		below, err := e.catalog.all(ctx, ListQuery{Namespace: e.namespace, Kind: KindEntity, Under: id})
		if err != nil {
			return err
		}
		for _, child := range below {
			if err := e.Erase(ctx, child.ID, DeleteChildren); err != nil {
				return err
			}
		}
		children = RefuseChildren
	}
	_, err := e.deleteEntity(ctx, id, 0, children, erased)
	if errors.Is(err, ErrNotFound) {
		err = e.eraseOwned(ctx, id)
	}
	if err != nil {
		return err
	}
	if _, err := e.catalog.purge(ctx, Purge{Target: PurgeUsage, Namespace: e.namespace, Entity: id}); err != nil {
		return err
	}
	// All before the event that says it.
	last, err := e.catalog.store.Events(ctx, EventQuery{Namespace: e.namespace, Subject: id, Newest: true, Max: 1})
	if err != nil || len(last.Events) == 0 {
		return err
	}
	_, err = e.catalog.purge(ctx, Purge{Target: PurgeEvents, Namespace: e.namespace, Entity: id, BeforeID: last.Events[0].ID})
	return err
}

// eraseOwned deletes what is stored for an id that has no entity.
func (e *Editor) eraseOwned(ctx context.Context, id string) error {
	_, err := e.attempt(ctx, func(b *build) error {
		owned, err := e.catalog.owned(ctx, e.namespace, id)
		if err != nil {
			return err
		}
		for _, r := range owned {
			b.remove(&r, 0)
		}
		return b.event(erased, id, nil, nil)
	}, nil)
	return err
}
