package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
)

// Namespace keeps entities, limits and usage apart from those of others: nothing
// of one is seen in another.
type Namespace struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created"`
	Deleting    bool      `json:"deleting,omitempty"` // it is being removed
	Closed      time.Time `json:"closed,omitzero"`    // since when it is
	Version     int64     `json:"version"`
}

type namespaceData struct {
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created"`
	Deleting    bool      `json:"deleting,omitempty"`
	Closed      time.Time `json:"closed,omitzero"`
}

func namespaceKey(name string) RecordKey { return RecordKey{Kind: KindNamespace, ID: name} }

func namespaceOf(r Record) (Namespace, error) {
	var d namespaceData
	err := decode(r, &d)
	return Namespace{r.ID, d.Description, d.Created, d.Deleting, d.Closed, r.Version}, err
}

// namespaceRecord is the record of a namespace that is there, and not being
// deleted.
func (c *Catalog) namespaceRecord(ctx context.Context, name string) (Record, error) {
	if err := checkName("namespace", name); err != nil {
		return Record{}, err
	}
	r, err := c.store.Get(ctx, namespaceKey(name))
	if err != nil {
		return r, about("namespace", name, err)
	}
	n, err := namespaceOf(r)
	if err == nil && n.Deleting {
		err = fmt.Errorf("namespace %q is being deleted: %w", name, ErrNotFound)
	}
	return r, err
}

// createDefault makes the namespace that is always there.
func (c *Catalog) createDefault(ctx context.Context) error {
	_, err := c.store.Get(ctx, namespaceKey(DefaultNamespace))
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	err = c.Edit(DefaultNamespace, By{Actor: "sluice"}).CreateNamespace(ctx, "")
	if errors.Is(err, ErrExists) || errors.Is(err, sluice.ErrUnknown) {
		return nil
	}
	return err
}

// Namespace is one namespace; [ErrNotFound] if there is none of that name.
func (c *Catalog) Namespace(ctx context.Context, name string) (Namespace, error) {
	return get(ctx, c, namespaceKey(name), "namespace", namespaceOf)
}

// NamespacePage is one page of namespaces.
type NamespacePage struct {
	Namespaces []Namespace `json:"namespaces"`
	Next       string      `json:"next,omitempty"`
}

// Namespaces lists namespaces in order of name. max is 1 to 1000, or 0 for
// 100.
func (c *Catalog) Namespaces(ctx context.Context, cursor string, max int) (NamespacePage, error) {
	all, next, err := list(ctx, c, ListQuery{Kind: KindNamespace, Cursor: cursor, Max: max}, namespaceOf)
	return NamespacePage{all, next}, err
}

// CreateNamespace creates the editor's namespace; [ErrExists] if it is there.
func (e *Editor) CreateNamespace(ctx context.Context, description string) error {
	if err := checkName("namespace", e.namespace); err != nil {
		return err
	}
	if err := checkText("description", description); err != nil {
		return err
	}
	if err := e.by.validate(); err != nil {
		return err
	}
	b := e.build(ctx)
	d := namespaceData{Description: description, Created: b.now}
	data, err := encode(d)
	if err != nil {
		return err
	}
	b.create(Record{RecordKey: namespaceKey(e.namespace), Data: data})
	if err := b.rootEvent("namespace.create", nil, d); err != nil {
		return err
	}
	_, err = e.apply(ctx, &b.batch)
	if errors.Is(err, ErrConflict) {
		return about("namespace", e.namespace, ErrExists)
	}
	return err
}

// rootEvent files an event about the namespace itself, which outlives it.
func (b *build) rootEvent(action string, before, after any) error {
	if err := b.event(action, NamespaceSubjectPrefix+b.e.namespace, before, after); err != nil {
		return err
	}
	b.batch.Events[len(b.batch.Events)-1].Namespace = ""
	return nil
}

// CloseNamespace is the first step of deleting the editor's namespace: from now
// on nothing in it can be used or changed, and other nodes hear of that within a
// second. Closing a closed one changes nothing. What is left to do is
// [Editor.DeleteNamespace].
func (e *Editor) CloseNamespace(ctx context.Context) (Namespace, error) {
	r, err := e.closeNamespace(ctx)
	if err != nil {
		return Namespace{}, err
	}
	return namespaceOf(r)
}

// DeleteNamespace removes the editor's namespace with everything in it, its
// audit events too; archive them first if they are wanted. It answers how much
// that was. It closes the namespace first. It can take long: if it is
// interrupted, call it again.
//
// What nodes have counted before they heard of it is written after that, so it
// is better to close a namespace a few seconds before. Buckets are the
// limiter's, stored responses the keeper's, and slots the scheduler's.
func (e *Editor) DeleteNamespace(ctx context.Context) (removed Removed, err error) {
	r, err := e.closeNamespace(ctx)
	if err != nil {
		return removed, err
	}
	for _, step := range []struct {
		target  Target
		removed *int
	}{{PurgeRecords, &removed.Records}, {PurgeUsage, &removed.Usage}, {PurgeEvents, &removed.Events}} {
		if *step.removed, err = e.catalog.purge(ctx, Purge{Target: step.target, Namespace: e.namespace}); err != nil {
			return removed, err
		}
	}
	b := e.build(ctx)
	b.remove(&r, 0)
	if err := b.rootEvent("namespace.delete", json.RawMessage(r.Data), nil); err != nil {
		return removed, err
	}
	_, err = e.apply(ctx, &b.batch)
	e.catalog.freshness.bumpAll() // its keys, too
	return removed, err
}

func (e *Editor) closeNamespace(ctx context.Context) (Record, error) {
	if e.namespace == DefaultNamespace {
		return Record{}, badinput.Field("namespace", e.namespace, "is always there and cannot be deleted")
	}
	if err := e.by.validate(); err != nil {
		return Record{}, err
	}
	for {
		r, err := e.catalog.store.Get(ctx, namespaceKey(e.namespace))
		if err != nil {
			return r, about("namespace", e.namespace, err)
		}
		n, err := namespaceOf(r)
		if err != nil || n.Deleting {
			return r, err
		}
		b := e.build(ctx)
		data, err := encode(namespaceData{n.Description, n.Created, true, b.now})
		if err != nil {
			return r, err
		}
		b.put(Record{RecordKey: r.RecordKey, Data: data}, &r, 0)
		if err := b.rootEvent("namespace.deleting", nil, nil); err != nil {
			return r, err
		}
		_, err = e.apply(ctx, &b.batch)
		e.catalog.freshness.bumpAll() // its keys, too
		if err != nil && !errors.Is(err, ErrConflict) {
			return r, err
		}
	}
}

// purge removes everything that p selects, in steps that leave room for
// others.
func (c *Catalog) purge(ctx context.Context, p Purge) (total int, err error) {
	p.Max = 1000
	for {
		n, err := c.store.Purge(ctx, p)
		total += n
		if err != nil || n < p.Max {
			return total, err
		}
	}
}
