package server

import (
	"errors"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// erase removes everything about an entity: what the catalog knows, and then
// its buckets, which would otherwise tell of it until they are full.
func (q *stored) erase(id string, children catalog.Children) error {
	gone := []string{id}
	if children == catalog.DeleteChildren {
		for i := 0; i < len(gone); i++ {
			below, err := q.childrenOf(gone[i])
			if err != nil {
				return err
			}
			gone = append(gone, below...)
		}
	}
	if err := q.edit().Erase(q.Context(), id, children); err != nil {
		return err
	}
	for _, id := range gone {
		if err := q.emptyBuckets(id); err != nil {
			return err
		}
	}
	return nil
}

func (q *stored) childrenOf(id string) (all []string, err error) {
	for query := (catalog.EntityQuery{Parent: id, Max: 1000}); ; {
		page, err := q.catalog.Entities(q.Context(), q.namespace, query)
		if err != nil {
			return nil, err
		}
		for i := range page.Entities {
			all = append(all, page.Entities[i].ID)
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			return all, nil
		}
	}
}

// emptyBuckets resets every bucket of an entity that is in use. A store that
// cannot list has nothing to be found in.
func (q *stored) emptyBuckets(entity string) error {
	for query := (sluice.Query{Namespace: q.namespace, Entity: entity, Max: sluice.MaxDemands}); ; {
		page, err := q.limiter.List(q.Context(), query)
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		if err != nil {
			return err
		}
		keys := make([]sluice.Key, len(page.Buckets))
		for i := range page.Buckets {
			keys[i] = page.Buckets[i].Key
		}
		if len(keys) > 0 {
			if err := q.limiter.Reset(q.Context(), keys...); err != nil {
				return err
			}
		}
		if query.Cursor = page.Next; query.Cursor == "" {
			return nil
		}
	}
}
