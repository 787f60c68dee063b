package sqlcatalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/sqldb"
)

// ScanUsage reads a row of usage: its series, start, amount, count and when it
// was last taken.
func ScanUsage(namespace string, span catalog.Span) func(sqldb.Row) (catalog.UsageRow, error) {
	return func(row sqldb.Row) (catalog.UsageRow, error) {
		r := catalog.UsageRow{Namespace: namespace, Span: span}
		var start, last int64
		err := row.Scan(&r.Entity, &r.Resource, &r.Limit, &start, &r.Amount, &r.Count, &last)
		r.Stored(start, last)
		return r, err
	}
}

// MaxSeries is how many series one page looks at. Where most have no rows in the
// time asked for, a page may have fewer rows than there is room for, or none,
// and still another page after it.
const MaxSeries = 1000

// Usage is part of [catalog.Store].
func (c *Store) Usage(ctx context.Context, q catalog.UsageQuery) (page catalog.UsagePage, err error) {
	type listed struct {
		catalog.UsageRow
		looked int  // at so many series until then
		empty  bool // only the last that is looked at
	}
	s, err := UsageStatement(q)
	found, err := List(ctx, c, s, err, func(row sqldb.Row) (listed, error) {
		r := listed{UsageRow: catalog.UsageRow{Namespace: q.Namespace, Span: q.Span}}
		var start, last int64
		err := row.Scan(&r.Entity, &r.Resource, &r.Limit, &start, &r.Amount, &r.Count, &last, &r.looked)
		r.Stored(start, last)
		r.empty = start < 0
		return r, err
	})
	cursor := func(r *catalog.UsageRow) string {
		named := r.Resource
		if q.Entity == "" {
			named = r.Entity
		}
		return catalog.EncodeCursor(named, r.Limit, strconv.FormatInt(r.Seconds(), 10))
	}
	for i := range found {
		r := &found[i]
		if len(page.Rows) == q.Max {
			page.Next = cursor(&page.Rows[q.Max-1])
			break
		}
		if !r.empty {
			page.Rows = append(page.Rows, r.UsageRow)
		}
		if r.looked == MaxSeries {
			page.Next = cursor(&r.UsageRow)
		}
	}
	return page, err
}

// UsageStatement lists rows series by series.
func UsageStatement(q catalog.UsageQuery) (*Select, error) {
	after, err := catalog.DecodeCursor(q.Cursor, 3)
	if err != nil {
		return nil, err
	}
	from, to := q.Window()
	first, begin, named := []string{q.Entity, q.Resource, ""}, from, "resource"
	switch {
	case q.Entity == "" && q.Resource == "":
		return nil, errors.New("catalog: usage: an entity or a resource must be named")
	case q.Entity == "":
		named = "entity"
	}
	if after != nil {
		// A cursor that somebody made up finds nothing worse than another row.
		start, _ := strconv.ParseInt(after[2], 10, 64)
		begin, first[2] = max(from, start+1), after[1]
		if named == "resource" {
			first[1] = after[0]
		} else {
			first[0] = after[0]
		}
	}
	place := map[string]string{"entity": first[0], "resource": first[1]}[named]
	s := &Select{}
	s.Add(`SELECT s.entity, s.resource, s.lim, coalesce(b.start, -1), coalesce(b.amount, 0), coalesce(b.count, 0), coalesce(b.last, 0), s.looked
		FROM (SELECT f.*, row_number() OVER () AS looked FROM (`)
	s.AddSeries(q, ">=", first)
	// Both databases follow the order of series and, in each, that of the
	// primary key. Only the series that the page before ended in begins later.
	s.Add(` LIMIT ?) f) s LEFT JOIN sluice.catalog_bin b ON b.series = s.id AND b.span = ?
		AND b.start >= CASE WHEN s.`+named+` = ? AND s.lim = ? THEN ?::bigint ELSE ?::bigint END AND b.start < ?
		WHERE b.count IS NOT NULL OR s.looked = ? LIMIT ?`,
		MaxSeries, string(q.Span), place, first[2], begin, from, to, MaxSeries, q.Max+1)
	return s, nil
}

// AddSeries adds a statement that finds the series that q selects, in order, from
// first on, which is an entity, a resource and a limit. It returns the order.
func (s *Select) AddSeries(q catalog.UsageQuery, sign string, first []string) (order string) {
	view, where, fixed := "", "", []any{q.Namespace}
	columns, from := []string{"s.entity", "s.resource", "s.lim"}, []any{first[0], first[1], first[2]}
	switch {
	case q.Entity != "" && q.Resource != "":
		where, fixed = " AND s.entity = ? AND s.resource = ?", append(fixed, q.Entity, q.Resource)
		columns, from = columns[2:], from[2:]
	case q.Entity != "":
		where, fixed = " AND s.entity = ?", append(fixed, q.Entity)
		columns, from = columns[1:], from[1:]
	case q.Resource != "":
		view, where, fixed = "_indexed", " AND s.resource = ?", append(fixed, q.Resource)
		columns, from = []string{"s.entity", "s.lim"}, []any{first[0], first[2]}
	}
	order = strings.Join(columns, ", ")
	s.Add(`SELECT s.id, s.entity, s.resource, s.lim FROM sluice.catalog_series`+view+` s WHERE s.namespace = ?`+where, fixed...)
	s.Add(` AND (`+order+`) `+sign+` (`+strings.TrimSuffix(strings.Repeat("?, ", len(from)), ", ")+`)`, from...)
	s.Add(` ORDER BY ` + order)
	return order
}

// CountSeries is part of [catalog.Store].
func (c *Store) CountSeries(ctx context.Context, namespace string, most int) (int, error) {
	s := &Select{sqldb.Do(`SELECT count(*) FROM (SELECT 1 FROM sluice.catalog_series s WHERE s.namespace = $1 LIMIT $2) found`, namespace, most)}
	counts, err := List(ctx, c, s, nil, func(row sqldb.Row) (n int, err error) {
		err = row.Scan(&n)
		return n, err
	})
	if err != nil {
		return 0, err
	}
	return counts[0], nil
}

// Totals is part of [catalog.Store].
func (c *Store) Totals(ctx context.Context, namespace string, asked []catalog.Series) ([]catalog.UsageRow, error) {
	s, err := TotalsStatement(namespace, asked)
	return List(ctx, c, s, err, ScanUsage(namespace, catalog.Total))
}

// TotalsStatement is the statement of Totals.
func TotalsStatement(namespace string, asked []catalog.Series) (*Select, error) {
	names := make([][3]string, len(asked))
	for i, a := range asked {
		names[i] = [3]string{a.Entity, a.Resource, a.Limit}
	}
	list, err := json.Marshal(names)
	return &Select{sqldb.Do(`SELECT s.entity, s.resource, s.lim, b.start, b.amount, b.count, b.last
		FROM json_array_elements($1::json) a CROSS JOIN sluice.catalog_series s CROSS JOIN sluice.catalog_bin b
		WHERE s.namespace = $2 AND s.entity = (a.value->>0) COLLATE "C" AND s.resource = (a.value->>1) COLLATE "C"
		AND s.lim = (a.value->>2) COLLATE "C" AND b.series = s.id AND b.span = 'total' AND b.start = 0`, string(list), namespace)}, err
}

// MarkUsed is part of [catalog.Store].
func (c *Store) MarkUsed(ctx context.Context, uses []catalog.Use) error {
	type key struct{ namespace, id string }
	latest := make(map[key]int64, len(uses))
	for _, u := range uses {
		k := key{u.Namespace, u.ID}
		latest[k] = max(latest[k], u.At.UnixMicro())
	}
	rows := make([][3]any, 0, len(latest))
	for k, at := range latest {
		rows = append(rows, [3]any{k.namespace, k.id, at})
	}
	// In the order in which everybody locks records.
	slices.SortFunc(rows, func(a, b [3]any) int {
		return cmp.Or(strings.Compare(a[0].(string), b[0].(string)), strings.Compare(a[1].(string), b[1].(string)))
	})
	for part := range slices.Chunk(rows, MaxBatch) {
		list, err := json.Marshal(part)
		if err != nil {
			return err
		}
		err = c.DB.Update(ctx, func(tx sqldb.Tx) error {
			_, err := tx.Exec(sqldb.Do(`UPDATE sluice.catalog_record AS r SET used = (k.value->>2)::bigint
				FROM json_array_elements($1::json) k
				WHERE r.namespace = (k.value->>0) COLLATE "C" AND r.kind = 'key' AND r.id = (k.value->>1) COLLATE "C" AND r.sub = ''
				AND r.used < (k.value->>2)::bigint`, string(list)))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
