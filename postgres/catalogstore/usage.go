package catalogstore

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqlcatalog"
	"github.com/sluice-go/sluice/internal/sqldb"
)

// AddUsage is part of [catalog.Store].
func (c *Store) AddUsage(ctx context.Context, b *catalog.UsageBatch) error {
	if err := sqlcatalog.TooMany("rows of usage", len(b.Rows)); err != nil {
		return err
	}
	n := len(b.Rows)
	texts := newColumns(5, n)
	starts, amounts, counts, lasts := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	var namespaces []string
	var erased []int64
	for i := range b.Rows {
		r := &b.Rows[i]
		texts.set(i, r.Namespace, string(r.Span), r.Entity, r.Resource, r.Limit)
		starts[i], amounts[i], counts[i], lasts[i] = r.Seconds(), r.Amount, r.Count, r.Microseconds()
		if !slices.Contains(namespaces, r.Namespace) {
			namespaces, erased = append(namespaces, r.Namespace), append(erased, b.Erased[r.Namespace])
		}
	}
	added := false
	err := c.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, c.db.In(`SELECT sluice.catalog_add_usage_v3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`),
			unprepared, c.db.Patience(), b.Node, b.Seq, namespaces, erased,
			texts[0], texts[1], texts[2], texts[3], texts[4], starts, amounts, counts, lasts).Scan(&added)
	})
	if err == nil && !added {
		err = catalog.ErrErased
	}
	return err
}

// series is what one series adds up to, and how many were looked at until then.
type series struct {
	catalog.UsageRow
	looked int
	rows   int64 // none only in the last that is looked at
}

// SumUsage is part of [catalog.Store].
func (c *Store) SumUsage(ctx context.Context, q catalog.UsageQuery) (catalog.UsagePage, error) {
	s, err := sumStatement(q)
	found, err := sqlcatalog.List(ctx, &c.Store, s, err, func(row sqldb.Row) (series, error) {
		r := series{UsageRow: catalog.UsageRow{Namespace: q.Namespace, Span: q.Span}}
		var last int64
		err := row.Scan(&r.Entity, &r.Resource, &r.Limit, &r.Amount, &r.Count, &last, &r.rows, &r.looked)
		r.Stored(0, last)
		r.Start = time.Time{}
		return r, err
	})
	var page catalog.UsagePage
	for i := range found {
		r := &found[i]
		if len(page.Rows) == q.Max {
			last := &page.Rows[q.Max-1]
			page.Next = catalog.EncodeCursor(last.Entity, last.Resource, last.Limit)
			break
		}
		if r.rows > 0 {
			page.Rows = append(page.Rows, r.UsageRow)
		}
		if r.looked == sqlcatalog.MaxSeries {
			page.Next = catalog.EncodeCursor(r.Entity, r.Resource, r.Limit)
		}
	}
	return page, err
}

// sumStatement adds up one series after the other until the page is full.
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
	s.Add(`SELECT s.entity, s.resource, s.lim, t.amount, t.count, t.last, t.rows, s.looked FROM (SELECT f.*, row_number() OVER () AS looked FROM (`)
	s.AddSeries(q, sign, after)
	s.Add(` LIMIT ?) f) s CROSS JOIN LATERAL (
			SELECT coalesce(sum(b.amount), 0)::bigint AS amount, coalesce(sum(b.count), 0)::bigint AS count,
				coalesce(max(b.last), 0) AS last, count(*) AS rows
			FROM sluice.catalog_bin b WHERE b.series = s.id AND b.span = ? AND b.start >= ? AND b.start < ?
		) t WHERE t.rows > 0 OR s.looked = ? LIMIT ?`, sqlcatalog.MaxSeries, string(q.Span), from, to, sqlcatalog.MaxSeries, q.Max+1)
	return s, nil
}
