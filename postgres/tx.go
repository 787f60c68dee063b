package postgres

import (
	"cmp"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-go/sluice/internal/sqldb"
)

// View runs f with statements that only read, as [DB.Single] does.
func (db *DB) View(ctx context.Context, f func(sqldb.Tx) error) error {
	return ReadError(db.Single(ctx, f))
}

// Single runs f on a connection, each call of its Tx in a transaction of its own,
// as [DB.Call] does.
func (db *DB) Single(ctx context.Context, f func(sqldb.Tx) error) error {
	return db.run(ctx, f, func(_ context.Context, conn *pgx.Conn, f func(sender) error) error { return f(conn) })
}

// Update runs f in a transaction, as [DB.Call] does.
func (db *DB) Update(ctx context.Context, f func(sqldb.Tx) error) error {
	return db.run(ctx, f, func(ctx context.Context, conn *pgx.Conn, f func(sender) error) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return f(tx) })
	})
}

func (db *DB) run(ctx context.Context, f func(sqldb.Tx) error, begin func(context.Context, *pgx.Conn, func(sender) error) error) error {
	var answer error // of f, not of the database
	err := db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		answer = nil
		err := begin(ctx, conn, func(on sender) error {
			tx := tx{ctx: ctx, db: db, sender: on}
			err := f(&tx)
			if !tx.failed {
				answer = err
			}
			return err
		})
		if answer != nil {
			return nil
		}
		return err
	})
	return cmp.Or(err, answer)
}

// Removal returns a statement that deletes rows. It does so by their key, not by
// their place, because another may be writing them, which moves them.
func (db *DB) Removal(r sqldb.Rows) string {
	var same []string
	for column := range strings.SplitSeq(r.Key, ", ") {
		equal := "x." + column + " = gone." + column
		if r.From != "" && column != "start" && column != "series" { // the views have another collation
			equal += ` COLLATE "C"`
		}
		same = append(same, equal)
	}
	return "DELETE FROM sluice." + r.Table + " x USING (SELECT " + r.Key + " FROM sluice." + cmp.Or(r.From, r.Table) + " WHERE " + r.Where +
		" ORDER BY " + r.Order + " LIMIT " + r.Max + r.Lock + ") gone WHERE " + strings.Join(same, " AND ")
}

// sender is a connection, or a transaction on it.
type sender interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// tx is a [sqldb.Tx].
type tx struct {
	sender
	ctx    context.Context
	db     *DB
	failed bool // a statement did
}

// fault notes the error of a statement.
func (t *tx) fault(err error) error {
	t.failed = t.failed || err != nil
	return err
}

func (t *tx) Query(each func(sqldb.Row) error, sql string, args ...any) error {
	rows, err := t.sender.Query(t.ctx, t.db.In(sql), args...)
	if err != nil {
		return t.fault(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows); err != nil {
			return t.fault(err)
		}
	}
	return t.fault(rows.Err())
}

func (t *tx) Batch(first, last sqldb.Statement, each func(sqldb.Row) error) error {
	b := &pgx.Batch{}
	b.Queue(t.db.In(first.SQL), first.Args...)
	b.Queue(t.db.In(last.SQL), last.Args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if err := each(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	return t.fault(t.SendBatch(t.ctx, b).Close())
}

func (t *tx) Exec(statements ...sqldb.Statement) (changed int, err error) {
	b := &pgx.Batch{}
	for _, s := range statements {
		if s.SQL == "" {
			continue
		}
		b.Queue(t.db.In(s.SQL), s.Args...).Exec(func(tag pgconn.CommandTag) error {
			if !tag.Select() {
				changed += int(tag.RowsAffected())
			}
			return nil
		})
	}
	return changed, t.fault(t.SendBatch(t.ctx, b).Close())
}

func (t *tx) Lock(name string, n int64) error {
	_, err := t.Exec(sqldb.Do("SELECT pg_advisory_xact_lock(hashtextextended($1, $2))", t.lock(name), n))
	return err
}

func (t *tx) TryLock(name string, n int64) (free bool, err error) {
	_, err = sqldb.One(t, []any{&free}, "SELECT pg_try_advisory_xact_lock(hashtextextended($1, $2))", t.lock(name), n)
	return free, err
}

// lock is the name of a lock in this schema.
func (t *tx) lock(name string) string { return t.db.Config.Schema + "." + name }
