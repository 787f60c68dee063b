package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
)

// Namespace is a tenant of the installation. Nothing of one is seen in
// another.
type Namespace struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created"`
	Deleting    bool      `json:"deleting,omitempty"` // it is being removed
	Version     int64     `json:"version"`
}

type namespaceData struct {
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created"`
	Deleting    bool      `json:"deleting,omitempty"`
}

func namespaceKey(name string) RecordKey { return RecordKey{Kind: KindNamespace, ID: name} }

func namespaceOf(r Record) (Namespace, error) {
	var d namespaceData
	err := decode(r, &d)
	return Namespace{r.ID, d.Description, d.Created, d.Deleting, r.Version}, err
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
	r, err := c.store.Get(ctx, namespaceKey(name))
	if err != nil {
		return Namespace{}, about("namespace", name, err)
	}
	return namespaceOf(r)
}

// NamespacePage is one page of namespaces.
type NamespacePage struct {
	Namespaces []Namespace `json:"namespaces"`
	Next       string      `json:"next,omitempty"`
}

// Namespaces lists namespaces in order of name. max is 1 to 1000, or 0 for
// 100.
func (c *Catalog) Namespaces(ctx context.Context, cursor string, max int) (NamespacePage, error) {
	var page NamespacePage
	next, err := c.list(ctx, ListQuery{Kind: KindNamespace, Cursor: cursor, Max: max}, func(r Record) error {
		n, err := namespaceOf(r)
		page.Namespaces = append(page.Namespaces, n)
		return err
	})
	page.Next = next
	return page, err
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

// DeleteNamespace removes the editor's namespace with everything in it, its
// audit events too; archive them first if they are wanted. From the first
// moment nothing in it can be used or changed. It can take long: if it is
// interrupted, call it again.
//
// Buckets are the limiter's. Those of the namespace stay until they are full.
func (e *Editor) DeleteNamespace(ctx context.Context) error {
	if e.namespace == DefaultNamespace {
		return fieldError("namespace", e.namespace, "is always there and cannot be deleted")
	}
	if err := e.by.validate(); err != nil {
		return err
	}
	r, err := e.markDeleting(ctx)
	if err != nil {
		return err
	}
	for _, target := range []Target{PurgeRecords, PurgeUsage, PurgeEvents} {
		if _, err := e.catalog.purge(ctx, Purge{Target: target, Namespace: e.namespace}); err != nil {
			return err
		}
	}
	b := e.build(ctx)
	b.remove(&r, 0)
	if err := b.rootEvent("namespace.delete", json.RawMessage(r.Data), nil); err != nil {
		return err
	}
	_, err = e.apply(ctx, &b.batch)
	e.catalog.freshness.bumpAll() // its keys, too
	return err
}

func (e *Editor) markDeleting(ctx context.Context) (Record, error) {
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
		data, err := encode(namespaceData{n.Description, n.Created, true})
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
