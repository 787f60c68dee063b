package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/badinput"
)

// By is who makes a change, for the audit log.
type By struct {
	Actor  string `json:"actor"`            // a person or a program
	From   string `json:"from,omitempty"`   // the address they came from
	Reason string `json:"reason,omitempty"` // why, if they said so
}

func (b By) validate() error {
	if b.Actor == "" {
		return badinput.Field("by.actor", `""`, "must say who makes the change")
	}
	for _, f := range []struct{ field, text string }{{"by.actor", b.Actor}, {"by.from", b.From}, {"by.reason", b.Reason}} {
		if err := checkText(f.field, f.text); err != nil {
			return err
		}
	}
	return nil
}

// Editor makes changes in one namespace in somebody's name. Each is one
// atomic batch with its audit events.
//
// A method that takes a version changes only that version of a thing, and is
// refused with [ErrConflict] if somebody else has changed it since. Version 0
// changes whatever is there. An error that wraps [sluice.ErrUnknown] means
// that the change may have been made.
type Editor struct {
	catalog   *Catalog
	namespace string
	by        By
}

// Edit is for changing a namespace in somebody's name.
func (c *Catalog) Edit(namespace string, by By) *Editor { return &Editor{c, namespace, by} }

// attempts is how often a change is built anew when something that it depends
// on, but did not set out to change, was changed by somebody else meanwhile.
const attempts = 50

var conflictPauses = backoff.Pauses{First: 2 * time.Millisecond, Max: 40 * time.Millisecond}

// build is a batch in the making.
type build struct {
	ctx   context.Context
	e     *Editor
	now   time.Time
	batch Batch

	// fixed are the mutations whose versions the caller has named: if one
	// does not hold, the caller must decide anew. Others are tried again.
	fixed map[int]bool
}

func (e *Editor) build(ctx context.Context) *build {
	return &build{ctx: ctx, e: e, now: e.catalog.now(), batch: Batch{Namespace: e.namespace}, fixed: map[int]bool{}}
}

// attempt builds a batch and applies it, again if it came to nothing because
// of others. It answers the namespace's new version, and stores it in
// *version, too.
func (e *Editor) attempt(ctx context.Context, fill func(*build) error, version *int64) (int64, error) {
	if err := e.by.validate(); err != nil {
		return 0, err
	}
	for try := 1; ; try++ {
		b := e.build(ctx)
		if err := b.namespaceExists(); err != nil {
			return 0, err
		}
		if err := fill(b); err != nil {
			return 0, err
		}
		v, err := e.apply(ctx, &b.batch)
		if err == nil {
			if version != nil {
				*version = v
			}
			return v, nil
		}
		var conflict *ConflictError
		if !errors.As(err, &conflict) || b.fixed[conflict.Index] || try == attempts {
			return 0, err
		}
		if !conflictPauses.Wait(ctx, try) {
			return 0, ctx.Err()
		}
	}
}

// apply applies a batch and makes this node's caches forget.
func (e *Editor) apply(ctx context.Context, b *Batch) (int64, error) {
	if n, most := len(b.Mutations)+len(b.Events), e.catalog.store.MaxBatch(); n > most {
		return 0, badinput.Field("change", fmt.Sprintf("%d records and events", n), fmt.Sprintf("must be at most %d at once: divide it", most))
	}
	v, err := e.catalog.store.Change(ctx, b)
	var conflict *ConflictError
	if err != nil && errors.As(err, &conflict) {
		return 0, err
	}
	for i := range b.Mutations { // also if it is not known whether it happened
		if m := &b.Mutations[i]; m.Op != Check {
			e.catalog.changed(Changed{Namespace: m.Record.Namespace, Kind: m.Record.Kind, ID: m.Record.ID})
		}
	}
	return v, err
}

// namespaceExists makes the batch hold only while its namespace is there.
func (b *build) namespaceExists() error {
	r, err := b.e.catalog.namespaceRecord(b.ctx, b.e.namespace)
	if err != nil {
		return err
	}
	b.check(r.RecordKey, r.Version)
	return nil
}

// read is the record as it is now; nil if there is none.
func (b *build) read(k RecordKey) (*Record, error) {
	r, err := b.e.catalog.store.Get(b.ctx, k)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return &r, err
}

func (b *build) mustRead(k RecordKey, name string) (*Record, error) {
	r, err := b.read(k)
	if err == nil && r == nil {
		err = fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return r, err
}

// mustDecode is mustRead, and what the record says.
func mustDecode[T any](b *build, k RecordKey, name string, of func(Record) (T, error)) (*Record, T, error) {
	r, err := b.mustRead(k, name)
	if err != nil {
		var none T
		return nil, none, err
	}
	v, err := of(*r)
	return r, v, err
}

func (b *build) add(m Mutation, fixed bool) {
	if fixed {
		b.fixed[len(b.batch.Mutations)] = true
	}
	b.batch.Mutations = append(b.batch.Mutations, m)
}

// put stores r over old, which is nil if there is none. If the caller has
// named a version, it must be that one.
func (b *build) put(r Record, old *Record, version int64) {
	have := IfAbsent
	if old != nil {
		have = old.Version
	}
	if version != 0 {
		have = version
	}
	b.add(Mutation{Op: Put, Record: r, If: have}, version != 0)
}

// create stores r, which must not be there.
func (b *build) create(r Record) { b.add(Mutation{Op: Put, Record: r, If: IfAbsent}, true) }

func (b *build) remove(old *Record, version int64) {
	m := Mutation{Op: Delete, Record: Record{RecordKey: old.RecordKey}, If: old.Version}
	if version != 0 {
		m.If = version
	}
	b.add(m, version != 0)
}

// removed is how many records the batch deletes.
func (b *build) removed() (n int) {
	for i := range b.batch.Mutations {
		if b.batch.Mutations[i].Op == Delete {
			n++
		}
	}
	return n
}

func (b *build) check(k RecordKey, version int64) {
	b.add(Mutation{Op: Check, Record: Record{RecordKey: k}, If: version}, false)
}

// The guards. A change that could break a rule for somebody else touches the
// rule's guard, and a change that relies on what it has seen (no children, no
// cycle, nobody in the tier) holds only if the guard is untouched since. So
// those who touch do not get in each other's way.
const (
	guardTree  = "tree"
	guardTiers = "tiers"
)

func (b *build) guardKey(name string) RecordKey { return RecordKey{b.e.namespace, KindGuard, name, ""} }

// touch tells whoever relies on the rule.
func (b *build) touch(guard string) {
	for _, m := range b.batch.Mutations {
		if m.Record.RecordKey == b.guardKey(guard) {
			return
		}
	}
	b.add(Mutation{Op: Put, Record: Record{RecordKey: b.guardKey(guard)}, If: IfAny}, false)
}

// rely must be called before looking at what the rule is about.
func (b *build) rely(guard string) error {
	old, err := b.read(b.guardKey(guard))
	if err == nil {
		b.put(Record{RecordKey: b.guardKey(guard)}, old, 0)
	}
	return err
}

// event files an audit event. before and after are nil if there is nothing.
func (b *build) event(action, subject string, before, after any) error {
	e := Event{
		ID: eventID(b.now, len(b.batch.Events)), Time: b.now, Namespace: b.e.namespace,
		Subject: subject, Action: action, By: b.e.by,
	}
	var err error
	if e.Before, err = encodeOrNil(before); err != nil {
		return err
	}
	if e.After, err = encodeOrNil(after); err != nil {
		return err
	}
	return b.file(e)
}

func (b *build) file(e Event) error {
	data, err := json.Marshal(e)
	b.batch.Events = append(b.batch.Events, EventRecord{Namespace: e.Namespace, Subject: e.Subject, ID: e.ID, Data: data})
	return err
}

// now is the time that is written down: in UTC, to the microsecond, which
// every store can keep.
func (c *Catalog) now() time.Time { return c.config.Clock().UTC().Truncate(time.Microsecond) }

func encode(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err == nil && len(data) > MaxData {
		err = badinput.Field("record", fmt.Sprintf("%d bytes", len(data)), fmt.Sprintf("must be at most %d bytes as JSON", MaxData))
	}
	return data, err
}

// encodeOrNil is nil for nil, and for a nil pointer.
func encodeOrNil(v any) (json.RawMessage, error) {
	data, err := json.Marshal(v)
	if string(data) == "null" {
		return nil, err
	}
	return data, err
}

func decode(r Record, v any) error {
	if len(r.Data) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Data, v); err != nil {
		return fmt.Errorf("%s %q is stored in a form that this version does not read: %w", r.Kind, r.ID, err)
	}
	return nil
}

// list reads one page of records. 0 asks for 100.
func list[T any](ctx context.Context, c *Catalog, q ListQuery, of func(Record) (T, error)) (all []T, next string, err error) {
	if err := pageSize(&q.Max); err != nil {
		return nil, "", err
	}
	page, err := c.store.List(ctx, q)
	if err != nil {
		return nil, "", err
	}
	for _, r := range page.Records {
		v, err := of(r)
		if err != nil {
			return nil, "", err
		}
		all = append(all, v)
	}
	return all, page.Next, nil
}

// get reads one record; [ErrNotFound] if there is none.
func get[T any](ctx context.Context, c *Catalog, k RecordKey, name string, of func(Record) (T, error)) (T, error) {
	r, err := c.store.Get(ctx, k)
	if err != nil {
		var none T
		return none, about(name, k.ID, err)
	}
	return of(r)
}

// all reads all pages.
func (c *Catalog) all(ctx context.Context, q ListQuery) (records []Record, err error) {
	for q.Max = 1000; ; {
		page, err := c.store.List(ctx, q)
		if err != nil {
			return nil, err
		}
		records = append(records, page.Records...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return records, nil
		}
	}
}
