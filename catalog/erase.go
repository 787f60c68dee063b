package catalog

import (
	"context"
	"errors"
)

const erased = "entity.erase"

// Removed is how much was removed.
type Removed struct {
	Records int `json:"records"` // entities, limits, overrides, keys and the like
	Usage   int `json:"usage"`   // rows of it
	Events  int `json:"events"`  // of the audit log
}

func (r *Removed) add(more Removed) {
	r.Records += more.Records
	r.Usage += more.Usage
	r.Events += more.Events
}

// Erase removes everything about an entity, whether or not it has a record:
// itself, its limits, overrides and keys, its usage, and the audit events
// about it, but for one that says that it was erased, by whom and why. It
// answers how much that was. It is done in steps: if it is interrupted, call it
// again.
//
// What nodes have counted in the last second is written after that. Buckets
// are the limiter's, see [sluice.Limiter.Reset], and stored responses the
// keeper's.
func (e *Editor) Erase(ctx context.Context, id string, children Children) (removed Removed, err error) {
	if children == DeleteChildren {
		// One after the other, each as a whole, so that it can be resumed.
		below, err := e.catalog.all(ctx, ListQuery{Namespace: e.namespace, Kind: KindEntity, Under: id})
		if err != nil {
			return removed, err
		}
		for _, child := range below {
			more, err := e.Erase(ctx, child.ID, DeleteChildren)
			removed.add(more)
			if err != nil {
				return removed, err
			}
		}
		children = RefuseChildren
	}
	records, err := e.deleteEntity(ctx, id, 0, children, erased)
	if errors.Is(err, ErrNotFound) {
		records, err = e.eraseOwned(ctx, id)
	}
	removed.Records += records
	if err != nil {
		return removed, err
	}
	usage, err := e.catalog.purge(ctx, Purge{Target: PurgeUsage, Namespace: e.namespace, Entity: id})
	removed.Usage += usage
	if err != nil {
		return removed, err
	}
	// All before the event that says it.
	last, err := e.catalog.store.Events(ctx, EventQuery{Namespace: e.namespace, Subject: id, Newest: true, Max: 1})
	if err != nil || len(last.Events) == 0 {
		return removed, err
	}
	events, err := e.catalog.purge(ctx, Purge{Target: PurgeEvents, Namespace: e.namespace, Entity: id, BeforeID: last.Events[0].ID})
	removed.Events += events
	return removed, err
}

// eraseOwned deletes what is stored for an id that has no entity, and answers
// how many records that was.
func (e *Editor) eraseOwned(ctx context.Context, id string) (records int, err error) {
	_, err = e.attempt(ctx, func(b *build) error {
		owned, err := e.catalog.owned(ctx, e.namespace, id)
		if err != nil {
			return err
		}
		for _, r := range owned {
			b.remove(&r, 0)
		}
		records = len(owned)
		return b.event(erased, id, nil, nil)
	}, nil)
	if err != nil {
		return 0, err
	}
	return records, nil
}
