// Package catalogstore keeps a catalog in an SQLite file.
package catalogstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/sqlite"
)

// maxBatch bounds how long one change keeps other writers waiting.
const maxBatch = 10_000

// Store is a [catalog.Store] in a database file. It is safe for concurrent use.
type Store struct {
	db *sqlite.DB

	// resolve is prepared once, for reading it takes longer than running it.
	resolve func() (*sql.Stmt, error)
}

var _ catalog.Store = (*Store)(nil)

// New returns the catalog in db. It is usable until db is closed.
func New(db *sqlite.DB) *Store {
	return &Store{db, sync.OnceValues(func() (*sql.Stmt, error) { return db.Reader().Prepare(resolveStatement) })}
}

// Close does nothing. The caller closes the database file.
func (c *Store) Close() error { return nil }

// MaxBatch is part of [catalog.Store].
func (c *Store) MaxBatch() int { return maxBatch }

const recordColumns = "namespace, kind, id, sub, version, under, tier, source, used, data"

func scanRecord(row interface{ Scan(...any) error }) (r catalog.Record, err error) {
	var used int64
	err = row.Scan(&r.Namespace, &r.Kind, &r.ID, &r.Sub, &r.Version, &r.Under, &r.Tier, &r.Source, &used, &r.Data)
	if used != 0 {
		r.Used = time.UnixMicro(used).UTC()
	}
	return r, err
}

// query runs f with every row of a statement.
func (c *Store) query(ctx context.Context, statement string, args []any, f func(*sql.Rows) error) error {
	rows, err := c.db.Reader().QueryContext(ctx, statement, args...)
	return sqlite.Each(rows, err, f)
}

func (c *Store) records(ctx context.Context, statement string, args ...any) ([]catalog.Record, error) {
	var records []catalog.Record
	err := c.query(ctx, statement, args, func(rows *sql.Rows) error {
		r, err := scanRecord(rows)
		records = append(records, r)
		return err
	})
	return records, err
}

// Get is part of [catalog.Store].
func (c *Store) Get(ctx context.Context, k catalog.RecordKey) (catalog.Record, error) {
	r, err := scanRecord(c.db.Reader().QueryRowContext(ctx, `SELECT `+recordColumns+` FROM catalog_record
		WHERE namespace = ? AND kind = ? AND id = ? AND sub = ?`, k.Namespace, k.Kind, k.ID, k.Sub))
	return r, missing(err)
}

// Find is part of [catalog.Store].
func (c *Store) Find(ctx context.Context, kind catalog.Kind, id string) (catalog.Record, error) {
	if kind != catalog.KindKey { // the ids of others are unique in their namespace only
		return catalog.Record{}, fmt.Errorf("sqlite: kind: %s: only keys are found without a namespace", kind)
	}
	r, err := scanRecord(c.db.Reader().QueryRowContext(ctx, `SELECT `+recordColumns+` FROM catalog_record
		WHERE kind = 'key' AND id = ?`, id))
	return r, missing(err)
}

func missing(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return catalog.ErrNotFound
	}
	return err
}

// List is part of [catalog.Store].
func (c *Store) List(ctx context.Context, q catalog.ListQuery) (catalog.RecordPage, error) {
	statement, args, err := listStatement(q)
	if err != nil {
		return catalog.RecordPage{}, err
	}
	records, err := c.records(ctx, statement, args...)
	page := catalog.RecordPage{Records: records}
	if len(records) > q.Max {
		page.Records = records[:q.Max]
		last := page.Records[q.Max-1]
		page.Next = catalog.EncodeCursor(last.ID, last.Sub)
	}
	return page, err
}

// listStatement asks for one record more than the page has, to know whether
// there is a next one.
func listStatement(q catalog.ListQuery) (string, []any, error) {
	statement := `SELECT ` + recordColumns + ` FROM catalog_record WHERE namespace = ? AND kind = ?`
	args := []any{q.Namespace, q.Kind}
	switch {
	case q.ID != "":
		statement, args = statement+` AND id = ?`, append(args, q.ID)
	case q.Under != "":
		// Saying that it is not empty lets SQLite use the partial index.
		statement, args = statement+` AND under = ? AND under <> ''`, append(args, q.Under)
	case q.Tier != "":
		statement, args = statement+` AND tier = ? AND tier <> ''`, append(args, q.Tier)
	case q.Source != "":
		statement, args = statement+` AND source = ? AND source <> ''`, append(args, q.Source)
	}
	after, err := catalog.DecodeCursor(q.Cursor, 2)
	if err != nil {
		return "", nil, err
	}
	if after != nil {
		statement, args = statement+` AND (id, sub) > (?, ?)`, append(args, after[0], after[1])
	}
	return statement + ` ORDER BY id, sub LIMIT ?`, append(args, q.Max+1), nil
}

// resolve follows the parents, at most MaxDepth entities in all, and then
// reads each place by its key.
const resolveStatement = `
WITH RECURSIVE
chain (id, tier, next, depth) AS (
	SELECT ?2, coalesce(r.tier, ''), coalesce(r.under, ''), 1
	FROM (SELECT 1) LEFT JOIN catalog_record r
		ON r.namespace = ?1 AND r.kind = 'entity' AND r.id = ?2 AND r.sub = ''
	WHERE ?2 <> ''
	UNION ALL
	SELECT r.id, r.tier, r.under, chain.depth + 1
	FROM chain CROSS JOIN catalog_record r
		ON r.namespace = ?1 AND r.kind = 'entity' AND r.id = chain.next AND r.sub = ''
	WHERE chain.next <> '' AND chain.depth < ?5
),
tiers (tier) AS (
	SELECT tier FROM chain WHERE tier <> ''
	UNION
	SELECT ?3 WHERE ?3 <> ''
),
wanted (namespace, kind, id, sub) AS (
	SELECT ?1, 'entity', id, '' FROM chain
	UNION ALL SELECT ?1, 'entity-limits', id, '' FROM chain
	UNION ALL SELECT ?1, 'entity-limits', id, ?4 FROM chain WHERE ?4 <> ''
	UNION ALL SELECT ?1, 'tier', tier, '' FROM tiers
	UNION ALL SELECT ?1, 'tier-limits', tier, '' FROM tiers
	UNION ALL SELECT ?1, 'tier-limits', tier, ?4 FROM tiers WHERE ?4 <> ''
	UNION ALL SELECT ?1, 'resource-limits', ?4, '' WHERE ?4 <> ''
	UNION ALL SELECT ?1, 'system-limits', '', ''
	UNION ALL SELECT '', 'namespace', ?1, ''
)
SELECT r.namespace, r.kind, r.id, r.sub, r.version, r.under, r.tier, r.source, r.used, r.data
FROM wanted w CROSS JOIN catalog_record r
	ON r.namespace = w.namespace AND r.kind = w.kind AND r.id = w.id AND r.sub = w.sub
UNION ALL
SELECT r.namespace, r.kind, r.id, r.sub, r.version, r.under, r.tier, r.source, r.used, r.data
FROM chain CROSS JOIN catalog_record r
	ON r.namespace = ?1 AND r.kind = 'override' AND r.id = chain.id`

// Resolve is part of [catalog.Store].
func (c *Store) Resolve(ctx context.Context, q catalog.ResolveQuery) ([]catalog.Record, error) {
	prepared, err := c.resolve()
	if err != nil {
		return nil, err
	}
	var records []catalog.Record
	rows, err := prepared.QueryContext(ctx, q.Namespace, q.Entity, q.Tier, q.Resource, catalog.MaxDepth)
	err = sqlite.Each(rows, err, func(rows *sql.Rows) error {
		r, err := scanRecord(rows)
		records = append(records, r)
		return err
	})
	return records, err
}
