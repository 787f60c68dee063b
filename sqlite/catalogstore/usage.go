package catalogstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqlcatalog"
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
		return addRows(ctx, tx, b.Rows)
	})
}

func addRows(ctx context.Context, tx *sql.Tx, rows []catalog.UsageRow) error {
	var find, begin, add *sql.Stmt
	for statement, text := range map[**sql.Stmt]string{
		&find:  `SELECT id FROM catalog_series WHERE namespace = ? AND entity = ? AND resource = ? AND lim = ?`,
		&begin: `INSERT INTO catalog_series (namespace, entity, resource, lim) VALUES (?, ?, ?, ?) RETURNING id`,
		&add: `INSERT INTO catalog_bin (series, span, start, amount, count, last) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET amount = amount + excluded.amount, count = count + excluded.count, last = max(last, excluded.last)`,
	} {
		var err error
		if *statement, err = tx.PrepareContext(ctx, text); err != nil {
			return err
		}
		defer (*statement).Close() //nolint:errcheck // the transaction tells
	}
	for i := range rows {
		r := &rows[i]
		var id int64
		err := find.QueryRowContext(ctx, r.Namespace, r.Entity, r.Resource, r.Limit).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			err = begin.QueryRowContext(ctx, r.Namespace, r.Entity, r.Resource, r.Limit).Scan(&id)
		}
		if err != nil {
			return err
		}
		if _, err := add.ExecContext(ctx, id, r.Span, r.Seconds(), r.Amount, r.Count, r.Microseconds()); err != nil {
			return err
		}
	}
	return nil
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

// sumStatement groups in the order of an index, so that a page reads only the
// series that it returns.
func sumStatement(q catalog.UsageQuery) (*sqlcatalog.Select, error) {
	after, err := catalog.DecodeCursor(q.Cursor, 3)
	if err != nil {
		return nil, err
	}
	sign := ">"
	if after == nil {
		after, sign = []string{q.Entity, q.Resource, ""}, ">="
	}
	from, to := q.Window()
	s := &sqlcatalog.Select{}
	s.Add(`SELECT s.entity, s.resource, s.lim, -1, sum(b.amount), sum(b.count), max(b.last) FROM (`)
	order := s.AddSeries(q, sign, after)
	s.Add(`) s CROSS JOIN catalog_bin b WHERE b.series = s.id AND b.span = ? AND b.start >= ? AND b.start < ?
		GROUP BY `+order+` ORDER BY `+order+` LIMIT ?`, string(q.Span), from, to, q.Max+1)
	return s, nil
}
