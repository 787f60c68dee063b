package catalog

import (
	"context"
	"strings"
	"unicode/utf8"
)

// careful is a store that is not asked for names which it cannot have: what
// one database takes for an error is nothing found in another. Whatever is
// stored has been checked before.
type careful struct{ Store }

// storable says whether every database can be asked for these names.
func storable(names ...string) bool {
	for _, s := range names {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return false
		}
	}
	return true
}

func (s careful) Get(ctx context.Context, k RecordKey) (Record, error) {
	if !storable(k.Namespace, k.ID, k.Sub) {
		return Record{}, ErrNotFound
	}
	return s.Store.Get(ctx, k)
}

func (s careful) Find(ctx context.Context, kind Kind, id string) (Record, error) {
	if !storable(id) {
		return Record{}, ErrNotFound
	}
	return s.Store.Find(ctx, kind, id)
}

func (s careful) List(ctx context.Context, q ListQuery) (RecordPage, error) {
	if !storable(q.Namespace, q.ID, q.Under, q.Tier, q.Source) {
		return RecordPage{}, nil
	}
	return s.Store.List(ctx, q)
}

func (s careful) Resolve(ctx context.Context, q ResolveQuery) ([]Record, error) {
	if !storable(q.Namespace, q.Entity, q.Tier, q.Resource) {
		return nil, nil
	}
	return s.Store.Resolve(ctx, q)
}

func (s careful) Events(ctx context.Context, q EventQuery) (EventPage, error) {
	if !storable(q.Namespace, q.Subject) {
		return EventPage{}, nil
	}
	return s.Store.Events(ctx, q)
}

func (s careful) Usage(ctx context.Context, q UsageQuery) (UsagePage, error) {
	if !storable(q.Namespace, q.Entity, q.Resource) {
		return UsagePage{}, nil
	}
	return s.Store.Usage(ctx, q)
}

func (s careful) SumUsage(ctx context.Context, q UsageQuery) (UsagePage, error) {
	if !storable(q.Namespace, q.Entity, q.Resource) {
		return UsagePage{}, nil
	}
	return s.Store.SumUsage(ctx, q)
}
