package sqlcatalog

import (
	"cmp"
	"context"
	"encoding/json"
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

// Usage is what [catalog.Store] calls so, of the rows that a statement lists: of
// an entity in order of series and time, of a resource alone in order of time.
func (c *Store) Usage(ctx context.Context, q catalog.UsageQuery, s *Select, failed error) (page catalog.UsagePage, err error) {
	found, err := List(ctx, c, s, failed, ScanUsage(q.Namespace, q.Span))
	page.Rows, page.Next = cut(found, q.Max, func(last *catalog.UsageRow) string {
		start := strconv.FormatInt(last.Seconds(), 10)
		if q.Entity != "" {
			return catalog.EncodeCursor(last.Resource, last.Limit, start)
		}
		return catalog.EncodeCursor(start, last.Entity, last.Limit)
	})
	return page, err
}

// CountSeries is part of [catalog.Store].
func (c *Store) CountSeries(ctx context.Context, namespace string, most int) (int, error) {
	s := &Select{sqldb.Do(`SELECT count(*) FROM (SELECT 1 FROM sluice.catalog_usage u WHERE u.namespace = $1 AND u.span = 'total' LIMIT $2) found`, namespace, most)}
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
	return &Select{sqldb.Do(`SELECT u.entity, u.resource, u.lim, u.start, u.amount, u.count, u.last
		FROM json_array_elements($1::json) a CROSS JOIN sluice.catalog_usage u
		WHERE u.namespace = $2 AND u.span = 'total' AND u.entity = (a.value->>0) COLLATE "C"
		AND u.resource = (a.value->>1) COLLATE "C" AND u.lim = (a.value->>2) COLLATE "C" AND u.start = 0`, string(list), namespace)}, err
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
