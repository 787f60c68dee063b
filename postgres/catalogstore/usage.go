package catalogstore

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
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
	rows := slices.Clone(b.Rows)
	slices.SortFunc(rows, func(a, b catalog.UsageRow) int {
		return cmp.Or(
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(string(a.Span), string(b.Span)),
			strings.Compare(a.Entity, b.Entity), strings.Compare(a.Resource, b.Resource),
			strings.Compare(a.Limit, b.Limit), a.Start.Compare(b.Start),
		)
	})
	n := len(rows)
	texts := newColumns(5, n)
	starts, amounts, counts, lasts := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for i := range rows {
		r := &rows[i]
		texts.set(i, r.Namespace, string(r.Span), r.Entity, r.Resource, r.Limit)
		starts[i], amounts[i], counts[i], lasts[i] = r.Seconds(), r.Amount, r.Count, r.Microseconds()
	}
	var namespaces []string // in order, as the rows are
	var erased []int64
	for i := range rows {
		if i == 0 || rows[i].Namespace != rows[i-1].Namespace {
			namespaces = append(namespaces, rows[i].Namespace)
			erased = append(erased, b.Erased[rows[i].Namespace])
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

// Usage is part of [catalog.Store].
func (c *Store) Usage(ctx context.Context, q catalog.UsageQuery) (catalog.UsagePage, error) {
	s, err := usageStatement(q)
	return c.Store.Usage(ctx, q, s, err)
}

// maxSeries is how many series one page of sums looks at. Where most have no
// rows in the time asked for, a page may have fewer rows than there is room
// for, or none, and still another page after it.
const maxSeries = 1000

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
		if r.looked == maxSeries {
			page.Next = catalog.EncodeCursor(r.Entity, r.Resource, r.Limit)
		}
	}
	return page, err
}

// usageStatement lists the rows of an entity series by series, and those of a
// resource alone in order of time.
func usageStatement(q catalog.UsageQuery) (*sqlcatalog.Select, error) {
	after, err := catalog.DecodeCursor(q.Cursor, 3)
	if err != nil {
		return nil, err
	}
	number := func(part int) int64 { // a cursor that somebody made up finds nothing worse than another row
		n, _ := strconv.ParseInt(after[part], 10, 64)
		return n
	}
	from, to := q.Window()
	s := &sqlcatalog.Select{}
	switch {
	case q.Entity != "":
		first, begin := []string{q.Entity, q.Resource, ""}, from
		if after != nil {
			first, begin = []string{q.Entity, after[0], after[1]}, max(from, number(2)+1)
		}
		addSeries(s, q, math.MaxInt32, ">=", first)
		// Only the series that the page before ended in begins later.
		s.Add(` SELECT s.entity, s.resource, s.lim, t.start, t.amount, t.count, t.last FROM series s CROSS JOIN LATERAL (
				SELECT u.start, u.amount, u.count, u.last FROM sluice.catalog_usage u WHERE u.namespace = ? AND u.span = ?
				AND u.entity = s.entity AND u.resource = s.resource AND u.lim = s.lim
				AND u.start >= CASE WHEN s.resource = ? AND s.lim = ? THEN ?::bigint ELSE ?::bigint END AND u.start < ?
				ORDER BY u.start
			) t LIMIT ?`, q.Namespace, string(q.Span), first[1], first[2], begin, from, to, q.Max+1)
	case q.Resource != "":
		s.Add(`SELECT u.entity, u.resource, u.lim, u.start, u.amount, u.count, u.last FROM sluice.catalog_usage_indexed u
			WHERE u.namespace = ? AND u.span = ? AND u.resource = ?`, q.Namespace, string(q.Span), q.Resource)
		if after != nil && number(0) >= from {
			s.Add(` AND (u.start, u.entity, u.lim) > (?, ?, ?)`, number(0), after[1], after[2])
		} else {
			s.Add(` AND u.start >= ?`, from)
		}
		s.Add(` AND u.start < ? ORDER BY u.start, u.entity, u.lim LIMIT ?`, to, q.Max+1)
	default:
		return nil, errors.New("postgres catalog: usage: an entity or a resource must be named")
	}
	return s, nil
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
	addSeries(s, q, maxSeries, sign, after)
	s.Add(` SELECT s.entity, s.resource, s.lim, t.amount, t.count, t.last, t.rows, s.looked FROM series s CROSS JOIN LATERAL (
			SELECT coalesce(sum(u.amount), 0)::bigint AS amount, coalesce(sum(u.count), 0)::bigint AS count,
				coalesce(max(u.last), 0) AS last, count(*) AS rows
			FROM sluice.catalog_usage u WHERE u.namespace = ? AND u.span = ? AND u.entity = s.entity COLLATE "C"
			AND u.resource = s.resource COLLATE "C" AND u.lim = s.lim COLLATE "C" AND u.start >= ? AND u.start < ?
		) t WHERE t.rows > 0 OR s.looked = ? LIMIT ?`,
		q.Namespace, string(q.Span), from, to, maxSeries, q.Max+1)
	return s, nil
}

// addSeries begins a statement with the series that q selects, in order, from
// first on, which is an entity, a resource and a limit, and no more than most.
// It jumps from each to the next, however many rows they have, and no further
// than is asked of it.
func addSeries(s *sqlcatalog.Select, q catalog.UsageQuery, most int, sign string, first []string) {
	table, where, order := "catalog_usage", "", "entity, resource, lim"
	fixed, from := []any{q.Namespace, string(q.Span)}, []any{first[0], first[1], first[2]}
	switch {
	case q.Entity != "" && q.Resource != "":
		where, order = " AND u.entity = ? AND u.resource = ?", "lim"
		fixed, from = append(fixed, q.Entity, q.Resource), from[2:]
	case q.Entity != "":
		where, order = " AND u.entity = ?", "resource, lim"
		fixed, from = append(fixed, q.Entity), from[1:]
	case q.Resource != "":
		table, where, order = "catalog_usage_indexed", " AND u.resource = ?", "entity, lim"
		fixed, from = append(fixed, q.Resource), []any{first[0], first[2]}
	}
	u := prefixed("u.", order)
	step := func(sign, place string, args ...any) {
		s.Add(`SELECT u.entity, u.resource, u.lim FROM sluice.`+table+` u WHERE u.namespace = ? AND u.span = ?`+where, fixed...)
		s.Add(` AND (`+u+`) `+sign+` (`+place+`)`, args...)
		s.Add(` ORDER BY ` + u + ` LIMIT 1`)
	}
	s.Add(`WITH RECURSIVE series AS (SELECT n.*, 1 AS looked FROM (`)
	step(sign, strings.TrimSuffix(strings.Repeat("?, ", len(from)), ", "), from...)
	s.Add(`) n UNION ALL SELECT n.*, p.looked + 1 FROM series p CROSS JOIN LATERAL (`)
	step(">", prefixed("p.", order))
	s.Add(`) n WHERE p.looked < ?)`, most)
}

// prefixed puts the name of a table before each column.
func prefixed(table, columns string) string {
	return table + strings.ReplaceAll(columns, ", ", ", "+table)
}
