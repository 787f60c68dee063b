// Package catalogstore keeps a catalog in an SQLite file.
package catalogstore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqlcatalog"
	"github.com/sluice-go/sluice/sqlite"
)

// Store is a [catalog.Store] in a database file. It is safe for concurrent use.
type Store struct {
	sqlcatalog.Store
	db *sqlite.DB

	// resolve is prepared once, for reading it takes longer than running it.
	resolve func() (*sql.Stmt, error)
}

var _ catalog.Store = (*Store)(nil)

// New returns the catalog in db. It is usable until db is closed.
func New(db *sqlite.DB) *Store {
	return &Store{sqlcatalog.Store{DB: db}, db, sync.OnceValues(func() (*sql.Stmt, error) { return db.Reader().Prepare(resolveStatement) })}
}

// Close does nothing. The caller closes the database file.
func (c *Store) Close() error { return nil }

// Purge is part of [catalog.Store]. Once everything about an entity is removed,
// nothing of it is left in the files.
func (c *Store) Purge(ctx context.Context, p catalog.Purge) (removed int, err error) {
	removed, err = c.Store.Purge(ctx, p)
	if err == nil && p.Entity != "" && removed < p.Max {
		err = c.db.Truncate(ctx)
	}
	return removed, err
}

// query runs f with every row of a statement.
func (c *Store) query(ctx context.Context, statement string, args []any, f func(*sql.Rows) error) error {
	rows, err := c.db.Reader().QueryContext(ctx, statement, args...)
	return sqlite.Each(rows, err, f)
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
SELECT ` + sqlcatalog.Columns + `
FROM wanted w CROSS JOIN catalog_record r
	ON r.namespace = w.namespace AND r.kind = w.kind AND r.id = w.id AND r.sub = w.sub
UNION ALL
SELECT ` + sqlcatalog.Columns + `
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
		r, err := sqlcatalog.Scan(rows)
		records = append(records, r)
		return err
	})
	return records, err
}
