// Package sqlcatalog keeps a catalog in a database that speaks SQL: what
// PostgreSQL and SQLite do alike. How they change records, resolve, add up usage
// and watch, they do each for themselves.
//
// A table with "_indexed" behind its name is read by an index that is not its
// primary key: PostgreSQL has such views.
package sqlcatalog

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqldb"
)

// MaxBatch bounds how long one change keeps other writers waiting.
const MaxBatch = 10_000

// KeptChanges is how many changes are kept for processes that are behind; one
// that is further behind forgets everything it knows.
const KeptChanges = 10_000

// Store is the common part of a [catalog.Store].
type Store struct {
	DB sqldb.DB

	// Steady makes a transaction find rows by an index, whatever the planner
	// knows of the tables. It may have no SQL.
	Steady sqldb.Statement
}

// MaxBatch is part of [catalog.Store].
func (c *Store) MaxBatch() int { return MaxBatch }

// TooMany is the error of a batch of n that is too large, if it is.
func TooMany(what string, n int) error {
	if n > MaxBatch {
		return fmt.Errorf("catalog: %s: %d: must be at most %d", what, n, MaxBatch)
	}
	return nil
}

// Columns are what [Scan] reads of a record r.
const Columns = "r.namespace, r.kind, r.id, r.sub, r.version, r.under, r.tier, r.source, r.used, r.data"

// Scan reads a record.
func Scan(row sqldb.Row) (r catalog.Record, err error) {
	var used int64
	err = row.Scan(&r.Namespace, &r.Kind, &r.ID, &r.Sub, &r.Version, &r.Under, &r.Tier, &r.Source, &used, &r.Data)
	if used != 0 {
		r.Used = time.UnixMicro(used).UTC()
	}
	return r, err
}

// one reads the only record for which a condition holds.
func (c *Store) one(ctx context.Context, where string, args ...any) (r catalog.Record, err error) {
	err = c.DB.View(ctx, func(tx sqldb.Tx) error {
		found, err := sqldb.All(tx, Scan, "SELECT "+Columns+" FROM sluice.catalog_record r WHERE "+where, args...)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return catalog.ErrNotFound
		}
		r = found[0]
		return nil
	})
	return r, err
}

// Get is part of [catalog.Store].
func (c *Store) Get(ctx context.Context, k catalog.RecordKey) (catalog.Record, error) {
	return c.one(ctx, "r.namespace = $1 AND r.kind = $2 AND r.id = $3 AND r.sub = $4", k.Namespace, string(k.Kind), k.ID, k.Sub)
}

// Find is part of [catalog.Store].
func (c *Store) Find(ctx context.Context, kind catalog.Kind, id string) (catalog.Record, error) {
	if kind != catalog.KindKey { // the ids of others are unique in their namespace only
		return catalog.Record{}, fmt.Errorf("catalog: kind: %s: only keys are found without a namespace", kind)
	}
	return c.one(ctx, "r.kind = 'key' AND r.id = $1", id)
}

// Select is a statement that is put together, with a ? for each argument.
type Select struct{ sqldb.Statement }

// Add adds text to a statement, and arguments for each ? in it.
func (s *Select) Add(text string, args ...any) {
	for _, arg := range args {
		s.Args = append(s.Args, arg)
		text = strings.Replace(text, "?", fmt.Sprintf("$%d", len(s.Args)), 1)
	}
	s.SQL += text
}

// List reads the rows of a statement, found by an index. Without an error of its
// own it returns the statement's.
func List[T any](ctx context.Context, c *Store, s *Select, failed error, scan func(sqldb.Row) (T, error)) (found []T, err error) {
	if failed != nil {
		return nil, failed
	}
	err = c.DB.View(ctx, func(tx sqldb.Tx) error {
		found = nil
		return tx.Batch(c.Steady, s.Statement, func(row sqldb.Row) error {
			one, err := scan(row)
			found = append(found, one)
			return err
		})
	})
	return found, err
}

// cut is the first most of what was found, and the cursor of the last one if there are
// more.
func cut[T any](found []T, most int, cursor func(*T) string) (page []T, next string) {
	if len(found) <= most {
		return found, ""
	}
	return found[:most], cursor(&found[most-1])
}

// List is part of [catalog.Store].
func (c *Store) List(ctx context.Context, q catalog.ListQuery) (page catalog.RecordPage, err error) {
	s, err := ListStatement(q)
	found, err := List(ctx, c, s, err, Scan)
	page.Records, page.Next = cut(found, q.Max, func(last *catalog.Record) string { return catalog.EncodeCursor(last.ID, last.Sub) })
	return page, err
}

// ListStatement asks for one record more than the page has, to know whether
// there is a next one.
func ListStatement(q catalog.ListQuery) (*Select, error) {
	after, err := catalog.DecodeCursor(q.Cursor, 2)
	if err != nil {
		return nil, err
	}
	by, value := "", ""
	switch {
	case q.Under != "":
		by, value = "under", q.Under
	case q.Tier != "":
		by, value = "tier", q.Tier
	case q.Source != "":
		by, value = "source", q.Source
	}
	s := &Select{}
	s.Add("SELECT " + Columns + " FROM sluice.catalog_record")
	if by != "" {
		s.Add("_indexed")
	}
	s.Add(" r WHERE r.namespace = ? AND r.kind = ?", q.Namespace, string(q.Kind))
	if by != "" {
		s.Add(" AND r."+by+" = ? AND r."+by+" <> ''", value) // the indexes leave out what is empty
	}
	if q.ID != "" {
		s.Add(" AND r.id = ?", q.ID)
	}
	switch {
	case after != nil && q.ID != "":
		s.Add(" AND r.sub > ?", after[1])
	case after != nil:
		s.Add(" AND (r.id, r.sub) > (?, ?)", after[0], after[1])
	}
	s.Add(" ORDER BY r.id, r.sub LIMIT ?", q.Max+1)
	return s, nil
}

// Events is part of [catalog.Store].
func (c *Store) Events(ctx context.Context, q catalog.EventQuery) (page catalog.EventPage, err error) {
	s, err := EventsStatement(q)
	found, err := List(ctx, c, s, err, func(row sqldb.Row) (e catalog.EventRecord, err error) {
		err = row.Scan(&e.Namespace, &e.ID, &e.Subject, &e.Data)
		return e, err
	})
	page.Events, page.Next = cut(found, q.Max, func(last *catalog.EventRecord) string { return catalog.EncodeCursor(last.ID) })
	return page, err
}

// EventsStatement is the statement of Events.
func EventsStatement(q catalog.EventQuery) (*Select, error) {
	after, err := catalog.DecodeCursor(q.Cursor, 1)
	if err != nil {
		return nil, err
	}
	s := &Select{}
	s.Add("SELECT e.namespace, e.id, e.subject, e.data FROM sluice.catalog_event")
	if q.Subject == "" {
		s.Add(" e WHERE e.namespace = ?", q.Namespace)
	} else {
		s.Add("_indexed e WHERE e.namespace = ? AND e.subject = ?", q.Namespace, q.Subject)
	}
	// One bound at each end, so that the index is entered at the right place.
	low, high, above := q.From, q.To, ">="
	switch {
	case after == nil:
	case !q.Newest && after[0] >= low:
		low, above = after[0], ">"
	case q.Newest && (high == "" || after[0] < high):
		high = after[0]
	}
	if low != "" {
		s.Add(" AND e.id "+above+" ?", low)
	}
	if high != "" {
		s.Add(" AND e.id < ?", high)
	}
	order := ""
	if q.Newest {
		order = " DESC"
	}
	s.Add(" ORDER BY e.id"+order+" LIMIT ?", q.Max+1)
	return s, nil
}
