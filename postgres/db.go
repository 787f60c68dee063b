package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-go/sluice/internal/background"
	"github.com/sluice-go/sluice/internal/backoff"
)

// DB is a pool of connections to a database whose schema is up to date, and what
// a job runs in the background. Each job has its own. It is safe for concurrent
// use.
type DB struct {
	// Config is what the DB was opened with, defaults filled in. It must not be
	// changed.
	Config Config

	pool     *pgxpool.Pool
	pooled   bool // a pooler stands between this process and the server
	patience *string

	*background.Work
}

// Open connects, and creates or migrates the schema where needed.
func Open(ctx context.Context, config Config) (*DB, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	db := &DB{Work: background.New(), Config: config}
	if db.pool, db.pooled, err = connect(ctx, &config); err != nil {
		return nil, err
	}
	if db.pooled {
		patience := milliseconds(config.patience())
		db.patience = &patience
	}
	return db, nil
}

// OpenReplica returns a DB of the standby at Config.Replica, for reading. It does not
// wait for it to be there.
func OpenReplica(ctx context.Context, config Config) (*DB, error) {
	config.Address = config.Replica
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	db := &DB{Work: background.New(), Config: config}
	pool, err := parse(&config)
	if err != nil {
		return nil, err
	}
	db.pool, err = open(ctx, &config, pool, false)
	return db, err
}

// Close waits for calls that are under way, and ends all connections.
func (db *DB) Close() error {
	defer db.pool.Close()
	return db.Work.Close()
}

// Pool is the state of a pool of connections. Waits and Waited only grow.
type Pool struct {
	Max, Open, InUse int
	Waits            int64         // calls that found no connection free
	Waited           time.Duration // how long calls have waited for one, in all
}

// Pool returns the state of the connections.
func (db *DB) Pool() Pool {
	s := db.pool.Stat()
	return Pool{
		Max: int(s.MaxConns()), Open: int(s.TotalConns()), InUse: int(s.AcquiredConns()),
		Waits: s.EmptyAcquireCount(), Waited: s.EmptyAcquireWaitTime(),
	}
}

// In returns a statement with the name of the schema in place of "sluice.".
func (db *DB) In(sql string) string {
	if db.Config.Schema == defaultSchema {
		return sql
	}
	return strings.ReplaceAll(sql, "sluice.", db.Config.Schema+".")
}

// Patience returns how long functions are to wait for locks, in milliseconds.
// It is nil if the session knows, which it does unless there is a pooler.
func (db *DB) Patience() *string { return db.patience }

// Given returns the time of Config.Clock in microseconds, which functions use
// in the place of the database's own, or nil without one.
func (db *DB) Given() *int64 {
	if db.Config.Clock == nil {
		return nil
	}
	now := db.Config.Clock().UnixMicro()
	return &now
}

const attempts = 5

var pauses = backoff.Pauses{First: 5 * time.Millisecond, Max: 40 * time.Millisecond}

// Call runs statements on a connection within Config.Timeout. It runs them
// again only while it is certain that they have not happened. An error for
// having found no row is an answer, and is returned as it is.
func (db *DB) Call(ctx context.Context, run func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, db.Config.Timeout)
	defer cancel()
	var err error
	for n := range attempts {
		if n > 0 && !pauses.Wait(ctx, n) {
			break
		}
		if db.Life().Err() != nil {
			return ErrClosed
		}
		var conn *pgxpool.Conn
		if conn, err = db.pool.Acquire(ctx); err != nil {
			continue // nothing was sent
		}
		err = run(ctx, conn.Conn())
		verdict := judge(err)
		if errors.Is(err, pgx.ErrNoRows) {
			verdict = done
		}
		if verdict == elsewhere {
			conn.Conn().Close(ctx) //nolint:errcheck // it is of no use
		}
		conn.Release()
		switch verdict {
		case done:
			return err
		case refused:
			return fmt.Errorf("postgres: %w", err)
		case undone:
			return UnavailableError(err)
		case unknown:
			return UnknownError(err)
		}
	}
	return UnavailableError(err)
}
