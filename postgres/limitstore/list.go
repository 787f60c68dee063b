package limitstore

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/postgres"
)

// List finds buckets that are not full, in order of their keys.
func (s *Store) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	if err := s.ready(ctx); err != nil {
		return sluice.Page{}, err
	}
	if err := q.Normalize(); err != nil {
		return sluice.Page{}, err
	}
	after, err := readCursor(q.Cursor)
	if err != nil {
		return sluice.Page{}, err
	}
	if s.replica.db != nil && s.replica.Near(s.db.Config.MaxLag) {
		now := s.reckon() // the standby's clock is another one
		if page, err := s.list(ctx, s.replica.db, &now, q, after); err == nil {
			return page, nil
		}
	}
	page, err := s.list(ctx, s.db, s.db.Given(), q, after)
	return page, postgres.ReadError(err)
}

// list finds buckets after one of them, at a time or, if that is nil, at the database's.
func (s *Store) list(ctx context.Context, from *postgres.DB, now *int64, q sluice.Query, after *rowKey) (sluice.Page, error) {
	var page sluice.Page
	for more := true; more; {
		var rows []row
		err := from.Call(ctx, func(ctx context.Context, conn *pgx.Conn) (err error) {
			rows, err = s.query(ctx, conn, now, &q, after)
			return err
		})
		if err != nil {
			return sluice.Page{}, err
		}
		more = len(rows) == q.Max
		for i := range rows {
			r := &rows[i]
			if page.Time.IsZero() {
				page.Time = time.UnixMicro(r.now)
			}
			b, ok, err := s.bucket(r)
			if err != nil {
				return sluice.Page{}, err
			}
			if ok && len(page.Buckets) == q.Max {
				page.Next = writeCursor(after)
				return page, nil
			}
			after = &r.key
			if ok {
				page.Buckets = append(page.Buckets, b)
			}
		}
	}
	if page.Time.IsZero() {
		page.Time = time.UnixMicro(s.reckon())
	}
	return page, nil
}

// row is a bucket as it is in the table.
type row struct {
	key   rowKey
	limit sluice.Limit
	state bucket.State
	now   int64
}

// query is the next rows that match and are not known to be full.
func (s *Store) query(ctx context.Context, conn *pgx.Conn, now *int64, q *sluice.Query, after *rowKey) ([]row, error) {
	args := []any{now, postgres.Text(q.Namespace)}
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	where, order := "b.namespace = $2", "b.entity, b.resource, b.limit_name"
	if q.Entity != "" {
		where += " AND b.entity = " + arg(postgres.Text(q.Entity))
	}
	if q.Resource != "" {
		where += " AND b.resource = " + arg(postgres.Text(q.Resource))
		order = "b.entity, b.limit_name" // as in bucket_by_resource
	}
	if after != nil {
		if q.Resource != "" {
			where += fmt.Sprintf(" AND (b.entity, b.limit_name) > (%s, %s)", arg(after.entity), arg(after.limit))
		} else {
			where += fmt.Sprintf(" AND (b.entity, b.resource, b.limit_name) > (%s, %s, %s)", arg(after.entity), arg(after.resource), arg(after.limit))
		}
	}
	sql := fmt.Sprintf(`
		SELECT c.now, b.namespace, b.entity, b.resource, b.limit_name,
			b.algorithm, b.amount, b.period, b.burst, b.calendar, b.zone,
			b.used, b.rem, b.at, b.consumed, b.recalled, b.recall_cost, b.counts, b.holds, b.tickets,
			f.costs, f.ends
		FROM (SELECT %[1]s.clock_v1($1) AS now) c
		CROSS JOIN %[1]s.bucket b
		LEFT JOIN LATERAL (
			SELECT array_agg(x.cost ORDER BY x.expires) AS costs, array_agg(x.expires ORDER BY x.expires) AS ends
			FROM %[1]s.flight x WHERE x.bucket = b.id AND b.algorithm = 3
		) f ON true
		WHERE %[2]s AND b.expires > c.now
		ORDER BY %[3]s LIMIT %[4]d`, s.db.Config.Schema, where, order, q.Max)
	found, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, scanRow)
}

func scanRow(found pgx.CollectableRow) (r row, err error) {
	var (
		algorithm, calendar   int16
		amount, period, burst int64
		zone                  string
		x                     bucket.Ext
		holds, tickets        []int64
		costs, ends           []int64
	)
	st := &r.state
	err = found.Scan(&r.now, &r.key.namespace, &r.key.entity, &r.key.resource, &r.key.limit,
		&algorithm, &amount, &period, &burst, &calendar, &zone,
		&st.Used, &st.Rem, &st.Time, &st.Consumed, &x.Recalled, &x.RecallCost, &x.Counts, &holds, &tickets, &costs, &ends)
	r.limit = limitOf(algorithm, amount, period, burst, calendar, zone)
	for h := holds; len(h) >= 4; h = h[4:] {
		x.Holds = append(x.Holds, bucket.Hold{
			ID: sluice.HoldID{Node: uint64(h[0]), Seq: uint64(h[1])}, Amount: h[2], Expires: h[3],
		})
	}
	for t := tickets; len(t) >= 5; t = t[5:] {
		x.Tickets = append(x.Tickets, bucket.Ticket{
			ID: sluice.HoldID{Node: uint64(t[0]), Seq: uint64(t[1])}, Rank: t[2], Cost: t[3], Expires: t[4],
		})
	}
	for i := range costs {
		x.Holders = append(x.Holders, bucket.Holder{Cost: costs[i], Expires: ends[i]})
	}
	if x.Counts != nil || x.Holds != nil || x.Tickets != nil || x.Holders != nil {
		st.Ext = &x
	}
	return r, err
}

// bucket is a row as it is to be shown, unless it is full.
func (s *Store) bucket(r *row) (sluice.Bucket, bool, error) {
	spec, err := s.specs.compile(&r.limit)
	if err != nil {
		return sluice.Bucket{}, false, fmt.Errorf("postgres store: bucket %s: %w", r.key.key(), err)
	}
	v := spec.View(&r.state, r.now)
	if v.Idle() {
		return sluice.Bucket{}, false, nil
	}
	return sluice.Bucket{
		Key:       r.key.key(),
		Limit:     r.limit,
		Remaining: sluice.Thousandths(v.Remaining()),
		Held:      sluice.Thousandths(v.Held),
		Consumed:  sluice.Thousandths(spec.ConsumedBy(&r.state, v)),
		Reset:     duration(spec.ResetIn(&r.state, v)),
		LastTaken: spec.LastTaken(&r.state),
		Tickets:   v.Tickets,
	}, true, nil
}

// A cursor is the key of the last bucket shown. Names are text without zero
// bytes, so a zero byte keeps them apart.
func writeCursor(k *rowKey) string {
	return base64.RawURLEncoding.EncodeToString([]byte(k.entity + "\x00" + k.resource + "\x00" + k.limit))
}

func readCursor(s string) (*rowKey, error) {
	if s == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	parts := strings.Split(string(b), "\x00")
	if err != nil || len(parts) != 3 {
		return nil, &sluice.FieldError{Field: "query.cursor", Value: s, Reason: "must be the Next of an earlier page"}
	}
	for _, p := range parts {
		if postgres.Text(postgres.Untext(p)) != p {
			return nil, &sluice.FieldError{Field: "query.cursor", Value: s, Reason: "must be the Next of an earlier page"}
		}
	}
	return &rowKey{entity: parts[0], resource: parts[1], limit: parts[2]}, nil
}
