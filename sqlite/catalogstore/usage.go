package catalogstore

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqlcatalog"
	"github.com/sluice-go/sluice/internal/sqldb"
)

// AddUsage is part of [catalog.Store].
func (c *Store) AddUsage(ctx context.Context, b *catalog.UsageBatch) error {
	if err := sqlcatalog.TooMany("rows of usage", len(b.Rows)); err != nil {
		return err
	}
	return c.db.Write(ctx, func(tx *sql.Tx) error {
		var seq int64
		err := tx.QueryRowContext(ctx, `SELECT seq FROM catalog_node WHERE node = ?`, b.Node).Scan(&seq)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if b.Seq <= seq {
			return nil // it was added before
		}
		if err := checkErased(ctx, tx, b); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO catalog_node VALUES (?, ?, ?)
			ON CONFLICT DO UPDATE SET seq = excluded.seq, at = excluded.at`, b.Node, b.Seq, time.Now().Unix()); err != nil {
			return err
		}
		add, err := tx.PrepareContext(ctx, `INSERT INTO catalog_usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET amount = amount + excluded.amount, count = count + excluded.count, last = max(last, excluded.last)`)
		if err != nil {
			return err
		}
		defer add.Close()
		for i := range b.Rows {
			r := &b.Rows[i]
			if _, err := add.ExecContext(ctx, r.Namespace, r.Span, r.Entity, r.Resource, r.Limit, r.Seconds(), r.Amount, r.Count, r.Microseconds()); err != nil {
				return err
			}
		}
		return nil
	})
}

// checkErased finds out whether something was erased that b may tell of.
func checkErased(ctx context.Context, tx *sql.Tx, b *catalog.UsageBatch) error {
	checked := map[string]bool{}
	for i := range b.Rows {
		namespace := b.Rows[i].Namespace
		if checked[namespace] {
			continue
		}
		checked[namespace] = true
		var have int64
		err := tx.QueryRowContext(ctx, `SELECT version FROM catalog_record WHERE namespace = ? AND kind = ? AND id = ? AND sub = ''`,
			namespace, catalog.KindGuard, catalog.ErasedGuard).Scan(&have)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if have != b.Erased[namespace] {
			return catalog.ErrErased
		}
	}
	return nil
}

// Usage is part of [catalog.Store].
func (c *Store) Usage(ctx context.Context, q catalog.UsageQuery) (catalog.UsagePage, error) {
	s, err := usageStatement(q)
	return c.Store.Usage(ctx, q, s, err)
}

// SumUsage is part of [catalog.Store].
func (c *Store) SumUsage(ctx context.Context, q catalog.UsageQuery) (page catalog.UsagePage, err error) {
	s, err := sumStatement(q)
	page.Rows, err = sqlcatalog.List(ctx, &c.Store, s, err, sqlcatalog.ScanUsage(q.Namespace, q.Span))
	for i := range page.Rows {
		page.Rows[i].Start = time.Time{}
	}
	if len(page.Rows) > q.Max {
		page.Rows = page.Rows[:q.Max]
		last := &page.Rows[q.Max-1]
		page.Next = catalog.EncodeCursor(last.Entity, last.Resource, last.Limit)
	}
	return page, err
}

// usageStatement lists an entity's rows in the order of the primary key, and
// a resource's in order of time.
func usageStatement(q catalog.UsageQuery) (*sqlcatalog.Select, error) {
	after, err := catalog.DecodeCursor(q.Cursor, 3)
	if err != nil {
		return nil, err
	}
	const columns = `SELECT entity, resource, lim, start, amount, count, last FROM catalog_usage `
	args := []any{q.Namespace, q.Span}
	from, to := q.Window()
	times := []any{from, to}
	number := func(part int) int64 { // a cursor that somebody made up finds nothing worse than another row
		n, _ := strconv.ParseInt(after[part], 10, 64)
		return n
	}
	var statement, order string
	between := ` AND +start >= ? AND +start < ?` // the plus keeps SQLite from going by time and then sorting
	switch {
	case q.Entity != "":
		statement = columns + `WHERE namespace = ? AND span = ? AND entity = ?`
		args = append(args, q.Entity)
		order = ` ORDER BY resource, lim, start`
		if q.Resource != "" {
			// Leaving out what is the same in all keeps SQLite from sorting.
			statement, args, order = statement+` AND resource = ?`, append(args, q.Resource), ` ORDER BY lim, start`
			if after != nil {
				statement, args = statement+` AND (lim, start) > (?, ?)`, append(args, after[1], number(2))
			}
		} else if after != nil {
			statement, args = statement+` AND (resource, lim, start) > (?, ?, ?)`, append(args, after[0], after[1], number(2))
		}
	case q.Resource != "":
		statement = columns + `INDEXED BY catalog_usage_time WHERE namespace = ? AND span = ? AND resource = ?`
		args = append(args, q.Resource)
		if after != nil {
			statement, args = statement+` AND (start, entity, lim) > (?, ?, ?)`, append(args, number(0), after[1], after[2])
			times[0] = max(from, number(0))
		}
		order, between = ` ORDER BY start, entity, lim`, ` AND start >= ? AND start < ?`
	default:
		return nil, errors.New("sqlite: usage: an entity or a resource must be named")
	}
	return &sqlcatalog.Select{Statement: sqldb.Do(statement+between+order+` LIMIT ?`, append(append(args, times...), q.Max+1)...)}, nil
}

// sumStatement groups in the order of an index, so that a page reads only the
// series that it returns.
func sumStatement(q catalog.UsageQuery) (*sqlcatalog.Select, error) {
	after, err := catalog.DecodeCursor(q.Cursor, 3)
	if err != nil {
		return nil, err
	}
	const columns = `SELECT entity, resource, lim, -1, sum(amount), sum(count), max(last) FROM catalog_usage `
	from, to := q.Window()
	args := []any{q.Namespace, q.Span}
	var statement, order string
	switch {
	case q.Entity != "":
		statement = columns + `WHERE namespace = ? AND span = ? AND entity = ?`
		args = append(args, q.Entity)
		order = `resource, lim`
		if q.Resource != "" {
			statement, args, order = statement+` AND resource = ?`, append(args, q.Resource), `lim`
			if after != nil {
				statement, args = statement+` AND lim > ?`, append(args, after[2])
			}
		} else if after != nil {
			statement, args = statement+` AND (resource, lim) > (?, ?)`, append(args, after[1], after[2])
		}
	case q.Resource != "":
		statement = columns + `INDEXED BY catalog_usage_resource WHERE namespace = ? AND span = ? AND resource = ?`
		args = append(args, q.Resource)
		if after != nil {
			statement, args = statement+` AND (entity, lim) > (?, ?)`, append(args, after[0], after[2])
		}
		order = `entity, lim`
	default:
		statement = columns + `WHERE namespace = ? AND span = ?`
		if after == nil {
			statement += ` AND (entity, resource, lim) >= ('', '', '')` // all, in the order of the primary key
		} else {
			statement, args = statement+` AND (entity, resource, lim) > (?, ?, ?)`, append(args, after[0], after[1], after[2])
		}
		order = `entity, resource, lim`
	}
	// The plus keeps SQLite from going by time and then sorting.
	statement += ` AND +start >= ? AND +start < ? GROUP BY ` + order + ` ORDER BY ` + order + ` LIMIT ?`
	return &sqlcatalog.Select{Statement: sqldb.Do(statement, append(args, from, to, q.Max+1)...)}, nil
}
