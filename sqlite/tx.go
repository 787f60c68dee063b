package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"

	"github.com/sluice-go/sluice/internal/sqldb"
)

// View runs f in a transaction that sees one state of the database.
func (db *DB) View(ctx context.Context, f func(sqldb.Tx) error) error {
	return db.Read(ctx, func(t *sql.Tx) error { return f(tx{ctx, t}) })
}

// Update runs f in a transaction, as [DB.Write] does.
func (db *DB) Update(ctx context.Context, f func(sqldb.Tx) error) error {
	return db.Write(ctx, func(t *sql.Tx) error { return f(tx{ctx, t}) })
}

// Removal returns a statement that deletes rows.
func (db *DB) Removal(r sqldb.Rows) string {
	from := "sluice." + cmp.Or(r.From, r.Table)
	if r.Index != "" {
		from += " INDEXED BY " + r.Index
	}
	return "DELETE FROM sluice." + r.Table + " WHERE (" + r.Key + ") IN (SELECT " + r.Key + " FROM " + from +
		" WHERE " + r.Where + " ORDER BY " + r.Order + " LIMIT " + r.Max + ")"
}

// tx is a [sqldb.Tx]. Locks mean nothing to it: it alone writes to the file.
type tx struct {
	ctx context.Context
	*sql.Tx
}

func (t tx) Query(each func(sqldb.Row) error, query string, args ...any) error {
	rows, err := t.QueryContext(t.ctx, sqldb.SQLite(query), args...)
	return fault(Each(rows, err, func(rows *sql.Rows) error { return each(rows) }))
}

func (t tx) Batch(first, last sqldb.Statement, each func(sqldb.Row) error) error {
	if _, err := t.Exec(first); err != nil {
		return err
	}
	return t.Query(each, last.SQL, last.Args...)
}

func (t tx) Exec(statements ...sqldb.Statement) (changed int, err error) {
	for _, s := range statements {
		if s.SQL == "" {
			continue
		}
		n, err := Exec(t.ctx, t.Tx, sqldb.SQLite(s.SQL), s.Args...)
		if err != nil {
			return changed, fault(err)
		}
		changed += n
	}
	return changed, nil
}

func (tx) Lock(string, int64) error { return nil }

func (tx) TryLock(string, int64) (bool, error) { return true, nil }

func fault(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite: %w", err)
}
