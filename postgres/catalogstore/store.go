// Package catalogstore keeps a catalog in PostgreSQL.
package catalogstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/postgres"
)

const (
	// maxBatch bounds how long one change keeps other writers waiting.
	maxBatch = 10_000

	// maxConns is what a catalog needs at most: it is read when a cache
	// misses, and written when people change something.
	maxConns = 4

	// unprepared is for calls of functions, which keep their plans themselves.
	// So they are one round trip, also the first time on a connection.
	unprepared = pgx.QueryExecModeExec
)

// Store is a [catalog.Store] on PostgreSQL. It is safe for concurrent use.
type Store struct{ db *postgres.DB }

var _ catalog.Store = (*Store)(nil)

// Open connects, and creates or migrates the schema where needed. MaxConns is 4
// if it is not set; one more connection listens while the catalog is watched.
func Open(ctx context.Context, config postgres.Config) (*Store, error) {
	if config.MaxConns == 0 {
		config.MaxConns = maxConns
	}
	db, err := postgres.Open(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Store{db}, nil
}

// Close waits for calls that are under way, and ends all connections.
func (c *Store) Close() error { return c.db.Close() }

// MaxBatch is part of [catalog.Store].
func (c *Store) MaxBatch() int { return maxBatch }

// call runs one statement, as [postgres.DB.Call] does.
func (c *Store) call(ctx context.Context, run func(context.Context, *pgx.Conn) error) error {
	var last error // of the database itself
	err := c.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		last = run(ctx, conn)
		return last
	})
	if err != nil && isRefusal(last) {
		return fmt.Errorf("postgres catalog: %w", last)
	}
	return err
}

// isRefusal reports whether the database was reached and did not take what it
// was given: values it cannot hold, or keys that are there already.
func isRefusal(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23"))
}

// read is a call that changes nothing.
func (c *Store) read(ctx context.Context, run func(context.Context, *pgx.Conn) error) error {
	return postgres.ReadError(c.call(ctx, run))
}

const recordColumns = "r.namespace, r.kind, r.id, r.sub, r.version, r.under, r.tier, r.source, r.used, r.data"

func scanRecord(row pgx.CollectableRow) (r catalog.Record, err error) {
	var used int64
	err = row.Scan(&r.Namespace, &r.Kind, &r.ID, &r.Sub, &r.Version, &r.Under, &r.Tier, &r.Source, &used, &r.Data)
	if used != 0 {
		r.Used = time.UnixMicro(used).UTC()
	}
	return r, err
}

// one reads the only record that a statement finds.
func (c *Store) one(ctx context.Context, sql string, args ...any) (r catalog.Record, err error) {
	err = c.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, c.db.In(sql), args...)
		if err != nil {
			return err
		}
		r, err = pgx.CollectExactlyOneRow(rows, scanRecord)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return catalog.Record{}, catalog.ErrNotFound
	}
	return r, err
}

// Get is part of [catalog.Store].
func (c *Store) Get(ctx context.Context, k catalog.RecordKey) (catalog.Record, error) {
	return c.one(ctx, `SELECT `+recordColumns+` FROM sluice.catalog_record r
		WHERE r.namespace = $1 AND r.kind = $2 AND r.id = $3 AND r.sub = $4`, k.Namespace, string(k.Kind), k.ID, k.Sub)
}

// Find is part of [catalog.Store].
func (c *Store) Find(ctx context.Context, kind catalog.Kind, id string) (catalog.Record, error) {
	if kind != catalog.KindKey { // the ids of others are unique in their namespace only
		return catalog.Record{}, fmt.Errorf("postgres catalog: kind: %s: only keys are found without a namespace", kind)
	}
	return c.one(ctx, `SELECT `+recordColumns+` FROM sluice.catalog_record r WHERE r.kind = 'key' AND r.id = $1`, id)
}

// Resolve is part of [catalog.Store].
func (c *Store) Resolve(ctx context.Context, q catalog.ResolveQuery) (records []catalog.Record, err error) {
	err = c.read(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, c.db.In(`SELECT `+recordColumns+` FROM sluice.catalog_resolve_v1($1, $2, $3, $4, $5) r`),
			unprepared, q.Namespace, q.Entity, q.Tier, q.Resource, catalog.MaxDepth)
		if err != nil {
			return err
		}
		records, err = pgx.CollectRows(rows, scanRecord)
		return err
	})
	return records, err
}
