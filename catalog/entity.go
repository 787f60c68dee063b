package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// Entity is who is limited: a user, an API key's owner, a company. Limits,
// overrides and keys can be stored for an id without an Entity; it adds a
// parent, a tier and what people want to know.
type Entity struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // for people

	// Parent is the entity above, such as a team. If Cascade is set, what
	// this entity takes is also taken from its parent, and from the parent's
	// parent if the parent cascades, all or nothing.
	Parent  string `json:"parent,omitempty"`
	Cascade bool   `json:"cascade,omitempty"`

	Tier     string            `json:"tier,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`

	Source  string    `json:"source,omitempty"` // the declaration it came from
	Version int64     `json:"version"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

type entityData struct {
	Name     string            `json:"name,omitempty"`
	Cascade  bool              `json:"cascade,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Created  time.Time         `json:"created"`
	Updated  time.Time         `json:"updated"`
}

func (e *Entity) validate() error {
	if err := checkStorable("entity.id", e.ID); err != nil {
		return err
	}
	if err := checkText("entity.name", e.Name); err != nil {
		return err
	}
	if e.Parent != "" {
		if err := checkStorable("entity.parent", e.Parent); err != nil {
			return err
		}
	}
	if e.Parent == e.ID {
		return badinput.Field("entity.parent", e.Parent, "an entity cannot be its own parent")
	}
	if e.Cascade && e.Parent == "" {
		return badinput.Field("entity.cascade", true, "needs a parent to cascade to")
	}
	if e.Tier != "" {
		if err := checkName("entity.tier", e.Tier); err != nil {
			return err
		}
	}
	return checkMetadata(e.Metadata)
}

func checkMetadata(m map[string]string) error {
	if len(m) > 50 {
		return badinput.Field("metadata", fmt.Sprintf("%d entries", len(m)), "must be at most 50")
	}
	for k, v := range m {
		if err := checkName("metadata", k); err != nil {
			return err
		}
		if err := checkText("metadata."+k, v); err != nil {
			return err
		}
	}
	return nil
}

func (e *Entity) record(namespace string) (Record, error) {
	data, err := encode(entityData{e.Name, e.Cascade, e.Metadata, e.Created, e.Updated})
	return Record{RecordKey: entityKey(namespace, e.ID), Under: e.Parent, Tier: e.Tier, Source: e.Source, Data: data}, err
}

func entityKey(namespace, id string) RecordKey { return RecordKey{namespace, KindEntity, id, ""} }

func entityOf(r Record) (Entity, error) {
	var d entityData
	err := decode(r, &d)
	return Entity{r.ID, d.Name, r.Under, d.Cascade, r.Tier, d.Metadata, r.Source, r.Version, d.Created, d.Updated}, err
}

// same reports whether e says what o does, versions and times aside.
func (e *Entity) same(o *Entity) bool {
	return e.Name == o.Name && e.Parent == o.Parent && e.Cascade == o.Cascade && e.Tier == o.Tier && maps.Equal(e.Metadata, o.Metadata)
}

// Entity is one entity; [ErrNotFound] if there is none of that id.
func (c *Catalog) Entity(ctx context.Context, namespace, id string) (Entity, error) {
	return get(ctx, c, entityKey(namespace, id), "entity", entityOf)
}

// EntityQuery selects entities: all, the children of a parent, or those of a
// tier.
type EntityQuery struct {
	Parent string
	Tier   string
	Cursor string
	Max    int // a page: 1 to 1000; 0 means 100
}

// EntityPage is one page of entities.
type EntityPage struct {
	Entities []Entity `json:"entities"`
	Next     string   `json:"next,omitempty"`
}

// Entities lists entities in order of id.
func (c *Catalog) Entities(ctx context.Context, namespace string, q EntityQuery) (EntityPage, error) {
	if q.Parent != "" && q.Tier != "" {
		return EntityPage{}, badinput.Field("query.tier", q.Tier, "list by parent or by tier, not by both")
	}
	lq := ListQuery{Namespace: namespace, Kind: KindEntity, Under: q.Parent, Tier: q.Tier, Cursor: q.Cursor, Max: q.Max}
	all, next, err := list(ctx, c, lq, entityOf)
	return EntityPage{all, next}, err
}

// CreateEntity creates an entity; [ErrExists] if there is one of that id. It
// answers it as stored.
func (e *Editor) CreateEntity(ctx context.Context, entity Entity) (Entity, error) {
	if err := entity.validate(); err != nil {
		return Entity{}, err
	}
	key := entityKey(e.namespace, entity.ID)
	_, err := e.attempt(ctx, func(b *build) error {
		entity.Source, entity.Created, entity.Updated = "", b.now, b.now
		if err := b.tierExists(entity.Tier); err != nil {
			return err
		}
		if entity.Parent != "" {
			if err := b.under(entity.ID, entity.Parent, 1); err != nil {
				return err
			}
			b.touch(guardTree)
		}
		r, err := entity.record(e.namespace)
		if err != nil {
			return err
		}
		b.create(r)
		return b.event("entity.create", entity.ID, nil, &entity)
	}, &entity.Version)
	var conflict *ConflictError
	if errors.As(err, &conflict) && conflict.Key == key {
		err = about("entity", entity.ID, ErrExists)
	}
	return entity, err
}

// UpdateEntity stores everything that entity says in place of what is there.
// If entity.Version is not 0, it must be the version stored.
func (e *Editor) UpdateEntity(ctx context.Context, entity Entity) (Entity, error) {
	if err := entity.validate(); err != nil {
		return Entity{}, err
	}
	version := entity.Version
	_, err := e.attempt(ctx, func(b *build) error {
		old, before, err := mustDecode(b, entityKey(e.namespace, entity.ID), "entity "+excerpt.Of(entity.ID), entityOf)
		if err != nil {
			return err
		}
		entity.Source, entity.Created, entity.Updated = before.Source, before.Created, b.now
		if entity.Tier != before.Tier {
			if err := b.tierExists(entity.Tier); err != nil {
				return err
			}
		}
		if entity.Parent != before.Parent {
			if err := b.move(entity.ID, entity.Parent); err != nil {
				return err
			}
		}
		r, err := entity.record(e.namespace)
		if err != nil {
			return err
		}
		b.put(r, old, version)
		entity.Version = before.Version // what the event says it was made of
		return b.event("entity.update", entity.ID, &before, &entity)
	}, &entity.Version)
	return entity, err
}
