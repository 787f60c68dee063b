// Package catalogstore keeps a catalog in PostgreSQL.
package catalogstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqlcatalog"
	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/postgres"
)

const (
	// maxConns is what a catalog needs at most: it is read when a cache
	// misses, and written when people change something.
	maxConns = 4

	// unprepared is for calls of functions, which keep their plans themselves.
	// So they are one round trip, also the first time on a connection.
	unprepared = pgx.QueryExecModeExec
)

// Store is a [catalog.Store] on PostgreSQL. It is safe for concurrent use.
type Store struct {
	sqlcatalog.Store
	db *postgres.DB
}

var _ catalog.Store = (*Store)(nil)

// Open connects, and creates or migrates the schema where needed. MaxConns is 4
// if it is not set; one more connection listens while the catalog is watched.
func Open(ctx context.Context, config postgres.Config) (*Store, error) {
	config.MaxConns = config.Conns(maxConns)
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Store{sqlcatalog.Store{
		DB: db, Steady: sqldb.Do("SELECT sluice.ready_v1($1), sluice.catalog_steady_v1()", db.Patience()),
	}, db}, nil
}

// Pool returns the state of the connections.
func (c *Store) Pool() postgres.Pool { return c.db.Pool() }

// Close waits for calls that are under way, and ends all connections.
func (c *Store) Close() error { return c.db.Close() }

// Resolve is part of [catalog.Store].
func (c *Store) Resolve(ctx context.Context, q catalog.ResolveQuery) (records []catalog.Record, err error) {
	err = c.db.View(ctx, func(tx sqldb.Tx) error {
		records, err = sqldb.All(tx, sqlcatalog.Scan, "SELECT "+sqlcatalog.Columns+" FROM sluice.catalog_resolve_v1($1, $2, $3, $4, $5) r",
			unprepared, q.Namespace, q.Entity, q.Tier, q.Resource, catalog.MaxDepth)
		return err
	})
	return records, err
}
