package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// under makes the batch hold only while parent and all above it are what they
// are now, and says whether an entity with height levels, itself the first,
// may stand under parent.
func (b *build) under(id, parent string, height int) error {
	records, err := b.e.catalog.store.Resolve(b.ctx, ResolveQuery{Namespace: b.e.namespace, Entity: parent})
	if err != nil {
		return err
	}
	depth := 0 // of parent: 1 at the top
	above := map[string]Record{}
	for _, r := range records {
		if r.Kind == KindEntity {
			above[r.ID] = r
		}
	}
	for at := parent; at != ""; at = above[at].Under {
		r, ok := above[at]
		switch {
		case at == id:
			return badinput.Field("entity.parent", parent, fmt.Sprintf("is below %s itself: that would be a circle", excerpt.Of(id)))
		case !ok && at == parent:
			return fmt.Errorf("entity.parent: %w", about("entity", parent, ErrNotFound))
		case !ok || depth+height >= MaxDepth:
			return badinput.Field("entity.parent", parent, fmt.Sprintf("would make more than %d levels of entities", MaxDepth))
		}
		b.check(r.RecordKey, r.Version)
		depth++
	}
	return nil
}

// move checks that an entity that is there may stand under another parent,
// with all that stands under it.
func (b *build) move(id, parent string) error {
	if err := b.rely(guardTree); err != nil {
		return err
	}
	if parent == "" {
		return nil
	}
	height, err := b.height(id)
	if err != nil {
		return err
	}
	return b.under(id, parent, height)
}

// height is how many levels there are from id downwards, its own included.
func (b *build) height(id string) (int, error) {
	level := []string{id}
	for height := 1; height <= MaxDepth; height++ {
		var next []string
		for _, parent := range level {
			children, err := b.e.catalog.all(b.ctx, ListQuery{Namespace: b.e.namespace, Kind: KindEntity, Under: parent})
			if err != nil {
				return 0, err
			}
			for _, c := range children {
				next = append(next, c.ID)
			}
		}
		if len(next) == 0 {
			return height, nil
		}
		level = next
	}
	return MaxDepth, nil
}

// Children says what becomes of an entity's children when it goes.
type Children uint8

const (
	// RefuseChildren refuses to delete an entity that has any. The default.
	RefuseChildren Children = iota
	// DeleteChildren deletes them too, and theirs.
	DeleteChildren
	// LiftChildren puts them under the parent of the deleted entity, or at
	// the top if it had none.
	LiftChildren
)

// DeleteEntity deletes an entity with its limits, overrides and keys. If
// version is not 0, it must be the version stored. Usage and audit events
// stay; [Editor.Erase] removes them too.
func (e *Editor) DeleteEntity(ctx context.Context, id string, version int64, children Children) error {
	_, err := e.deleteEntity(ctx, id, version, children, "entity.delete")
	return err
}

// deleteEntity answers how many records it has deleted.
func (e *Editor) deleteEntity(ctx context.Context, id string, version int64, children Children, action string) (records int, err error) {
	if err := checkID("entity.id", id); err != nil {
		return 0, err
	}
	var gone []string
	deleted, err := e.attempt(ctx, func(b *build) error {
		if err := b.rely(guardTree); err != nil {
			return err
		}
		old, err := b.mustRead(entityKey(e.namespace, id), "entity "+excerpt.Of(id))
		if err != nil {
			return err
		}
		gone, err = b.drop(*old, version, children, action)
		records = b.removed()
		return err
	}, nil)
	if err != nil {
		return 0, err
	}
	// What somebody stored for them just before they went goes, too.
	for _, id := range gone {
		late, err := e.sweep(ctx, id, deleted)
		records += late
		if err != nil {
			return records, err
		}
	}
	return records, nil
}

// drop deletes an entity and what belongs to it, and the same of its children
// if they are to go, too.
func (b *build) drop(old Record, version int64, children Children, action string) (gone []string, err error) {
	below, err := b.e.catalog.all(b.ctx, ListQuery{Namespace: b.e.namespace, Kind: KindEntity, Under: old.ID})
	if err != nil {
		return nil, err
	}
	if len(below) > 0 && children == RefuseChildren {
		return nil, fmt.Errorf("entity %q: %w: %d, the first is %q; say whether to delete or to lift them", excerpt.Of(old.ID), ErrHasChildren, len(below), excerpt.Of(below[0].ID))
	}
	before, err := entityOf(old)
	if err != nil {
		return nil, err
	}
	b.remove(&old, version)
	owned, err := b.e.catalog.owned(b.ctx, b.e.namespace, old.ID)
	if err != nil {
		return nil, err
	}
	for _, r := range owned {
		b.remove(&r, 0)
	}
	var what any = &before
	if action == erased {
		what = nil // that is what erasing is for
	}
	if err := b.event(action, old.ID, what, nil); err != nil {
		return nil, err
	}
	gone = []string{old.ID}
	for _, child := range below {
		if children == LiftChildren {
			if err := b.lift(child, old.Under); err != nil {
				return nil, err
			}
			continue
		}
		more, err := b.drop(child, 0, children, action)
		if err != nil {
			return nil, err
		}
		gone = append(gone, more...)
	}
	return gone, nil
}

// lift puts a child under its parent's parent.
func (b *build) lift(child Record, parent string) error {
	before, err := entityOf(child)
	if err != nil {
		return err
	}
	after := before
	after.Parent, after.Updated = parent, b.now
	after.Cascade = before.Cascade && parent != ""
	r, err := after.record(b.e.namespace)
	if err != nil {
		return err
	}
	b.put(r, &child, 0)
	return b.event("entity.update", child.ID, &before, &after)
}

// owned is what is stored for an entity beside itself: limits, overrides and
// keys.
func (c *Catalog) owned(ctx context.Context, namespace, id string) ([]Record, error) {
	limits, err := c.all(ctx, ListQuery{Namespace: namespace, Kind: KindEntityLimits, ID: id})
	if err != nil {
		return nil, err
	}
	overrides, err := c.all(ctx, ListQuery{Namespace: namespace, Kind: KindOverride, ID: id})
	if err != nil {
		return nil, err
	}
	keys, err := c.all(ctx, ListQuery{Namespace: namespace, Kind: KindKey, Under: id})
	return slices.Concat(limits, overrides, keys), err
}

// sweep deletes what was stored for an entity before a version, and answers how
// many records that was.
func (e *Editor) sweep(ctx context.Context, id string, before int64) (records int, err error) {
	late := func() ([]Record, error) {
		owned, err := e.catalog.owned(ctx, e.namespace, id)
		return slices.DeleteFunc(owned, func(r Record) bool { return r.Version > before }), err
	}
	if found, err := late(); err != nil || len(found) == 0 {
		return 0, err
	}
	_, err = e.attempt(ctx, func(b *build) error {
		found, err := late()
		for _, r := range found {
			b.remove(&r, 0)
		}
		records = len(found)
		return err
	}, nil)
	if err != nil {
		return 0, err
	}
	return records, nil
}
