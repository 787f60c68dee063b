package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
)

// busy is how long a statement waits for another process's transaction.
const busy = 5 * time.Second

// DB is a database file. It is safe for concurrent use.
type DB struct {
	path string

	// SQLite has one writer at a time. With one connection for writing,
	// writers of this process queue here, in order, instead of polling.
	writing *sql.DB
	reading *sql.DB
}

// Open opens the file at path. It creates the file if there is none, for its
// owner alone, and migrates it where needed. SQLite gives the files beside it
// the same permissions.
func Open(ctx context.Context, path string) (*DB, error) {
	return connect(ctx, path, (*DB).migrate)
}

// OpenCurrent opens the file at path, and leaves its schema as it is. It fails
// if that is not the one that this program needs: see [Open].
func OpenCurrent(ctx context.Context, path string) (*DB, error) {
	have, newest, err := Version(ctx, path)
	if err == nil && have != newest {
		err = fmt.Errorf("the file has version %d and this Sluice needs %d: migrate it with sluice migrate, or let the server do it", have, newest)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", path, err)
	}
	return connect(ctx, path, func(*DB, context.Context) error { return nil })
}

// connect opens the file and has migrate see to its schema.
func connect(ctx context.Context, path string, migrate func(*DB, context.Context) error) (*DB, error) {
	if path == "" {
		return nil, errors.New("sqlite: path: must name a file")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %w", err)
	}
	f.Close() //nolint:errcheck // nothing was written
	db := &DB{path: path}
	if db.writing, err = open(path, "immediate", 1); err != nil {
		return nil, err
	}
	if db.reading, err = open(path, "deferred", max(4, runtime.GOMAXPROCS(0))); err != nil {
		return nil, errors.Join(err, db.writing.Close())
	}
	if err := db.prepare(ctx, migrate); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlite: %s: %w", path, err), db.Close())
	}
	return db, nil
}

// prepare switches the file to a write-ahead log and migrates it. For the
// switch SQLite needs the file for itself and does not wait, so when several
// processes start at once it has to be tried again.
func (db *DB) prepare(ctx context.Context, migrate func(*DB, context.Context) error) error {
	for deadline := time.Now().Add(busy); ; {
		_, err := db.writing.ExecContext(ctx, "PRAGMA journal_mode = wal")
		if err == nil {
			err = migrate(db, ctx)
		}
		if !isBusy(err) || time.Now().After(deadline) {
			return err
		}
		if !backoff.Sleep(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
}

func open(path, lock string, connections int) (*sql.DB, error) {
	options := url.Values{"_txlock": {lock}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
		"synchronous(full)", // a commit survives a loss of power
		"foreign_keys(on)",
		"secure_delete(on)", // what is deleted is overwritten
	}}
	// The path is escaped, so that no character of it is read as an option.
	address := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + options.Encode()
	pool, err := sql.Open("sqlite", address)
	if err != nil {
		return nil, fmt.Errorf("sqlite: %s: %w", path, err)
	}
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool, nil
}

// Close ends all connections.
func (db *DB) Close() error { return errors.Join(db.reading.Close(), db.writing.Close()) }

// Reader returns the connections for statements that only read.
func (db *DB) Reader() *sql.DB { return db.reading }

// Write runs f in a transaction that holds the lock for writing from its
// start, and commits it if f succeeds. An error of which it is not known
// whether the transaction took effect wraps [sluice.ErrUnknown]; one before
// anything was done wraps [sluice.ErrUnavailable].
func (db *DB) Write(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := db.writing.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%w: sqlite: %w", sluice.ErrUnavailable, err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // it was rolled back instead
			return err
		}
		return fmt.Errorf("%w: sqlite: %w", sluice.ErrUnknown, err)
	}
	return nil
}

// Truncate copies the write-ahead log to the file and empties it. What was
// deleted before is then in neither. It waits for readers of earlier states.
func (db *DB) Truncate(ctx context.Context) error {
	var busy, pages, copied int
	err := db.writing.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &copied)
	if err == nil && busy != 0 {
		err = errors.New("the write-ahead log is still being read")
	}
	if err != nil {
		return fmt.Errorf("%w: sqlite: %w", sluice.ErrUnavailable, err)
	}
	return nil
}

// Read runs f in a transaction that sees one state of the database.
func (db *DB) Read(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := db.reading.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // there is nothing to undo
	return f(tx)
}

// Exec runs a statement in tx and returns the number of rows that it changed.
func Exec(ctx context.Context, tx *sql.Tx, statement string, args ...any) (int, error) {
	result, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Each calls f with every row that a query has found.
func Each(rows *sql.Rows, err error, f func(*sql.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// isBusy reports whether another process has the file.
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == lib.SQLITE_BUSY
}

// IsUnique reports whether an insert failed because the row already exists.
func IsUnique(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) &&
		(e.Code() == lib.SQLITE_CONSTRAINT_PRIMARYKEY || e.Code() == lib.SQLITE_CONSTRAINT_UNIQUE)
}
