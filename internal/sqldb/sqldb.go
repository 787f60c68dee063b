// Package sqldb is what PostgreSQL and SQLite have in common, so that a job is
// written once for both.
//
// Statements are in the dialect of PostgreSQL: parameters are $1, $2 and so on,
// and tables have the schema "sluice.", which is replaced. SQLite reads them
// through [SQLite], and what stands in a comment /*sqlite … */ only SQLite
// reads.
package sqldb

import (
	"context"
	"strings"
)

// DB is a database.
type DB interface {
	// View runs f with statements that only read.
	View(ctx context.Context, f func(Tx) error) error

	// Update runs f in a transaction, and commits it if f succeeds. It may run
	// f again if the transaction did not take effect. An error of f that no
	// statement caused is returned as it is.
	Update(ctx context.Context, f func(Tx) error) error

	// Removal returns a statement that deletes rows.
	Removal(Rows) string
}

// Rows are rows of a table to delete: those for which Where holds, the first of
// them in an order, as many as the parameter Max says. They are found in From,
// which is the table or a view of it, by Index, and deleted by Key.
type Rows struct {
	Table, From, Key string
	Where, Order     string
	Index            string // what SQLite has to be told
	Lock             string // how PostgreSQL locks them
	Max              string
}

// Tx runs statements until its transaction ends.
type Tx interface {
	// Query calls each for every row that a statement returns.
	Query(each func(Row) error, sql string, args ...any) error

	// Batch is Query after another statement, in the same transaction and in as
	// few round trips as possible.
	Batch(first, last Statement, each func(Row) error) error

	// Exec runs statements in as few round trips as possible, and returns how
	// many rows they changed in all. It leaves out statements without SQL.
	Exec(statements ...Statement) (int, error)

	// Lock waits for the lock of a name and a number, and keeps it until the
	// transaction ends.
	Lock(name string, n int64) error

	// TryLock takes the lock if nobody has it, and reports whether it has.
	TryLock(name string, n int64) (bool, error)
}

// Row is a row of a result.
type Row interface{ Scan(...any) error }

// Statement is a statement and its arguments.
type Statement struct {
	SQL  string
	Args []any
}

// Do returns a statement.
func Do(sql string, args ...any) Statement { return Statement{sql, args} }

// One reads the first row that a statement returns, and reports whether there
// is one.
func One(tx Tx, to []any, sql string, args ...any) (found bool, err error) {
	err = tx.Query(func(row Row) error {
		if found {
			return nil
		}
		found = true
		return row.Scan(to...)
	}, sql, args...)
	return found, err
}

// All reads all rows that a statement returns.
func All[T any](tx Tx, scan func(Row) (T, error), sql string, args ...any) (all []T, err error) {
	err = tx.Query(func(row Row) error {
		one, err := scan(row)
		all = append(all, one)
		return err
	}, sql, args...)
	return all, err
}

var sqlite = strings.NewReplacer(
	"sluice.", "", "_indexed ", " ", "to_timestamp(", "(", "/*sqlite", "", "*/", "",
	"::bigint", "", "::json", "", "json_array_elements(", "json_each(",
	"greatest(", "max(", ` COLLATE "C"`, "",
	" FOR UPDATE SKIP LOCKED", "", " FOR NO KEY UPDATE", "", " FOR UPDATE", "",
)

// SQLite returns a statement as SQLite reads it.
func SQLite(sql string) string { return sqlite.Replace(sql) }
