package replaystore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/postgres"
)

// Note adds to the figures.
func (r *Store) Note(ctx context.Context, a *idempotency.Activity) error {
	var (
		everyones      []bool
		tenants, names []string
		counts         []int64
		ids            [][]byte
		times, ats     []int64
	)
	for _, c := range a.Counts {
		everyones = append(everyones, c.Everyone)
		tenants = append(tenants, postgres.Text(c.Tenant))
		names = append(names, postgres.Text(c.Name))
		counts = append(counts, c.N)
	}
	for _, p := range a.Replays {
		ids = append(ids, p.ID[:])
		times = append(times, p.N)
		ats = append(ats, p.At.UnixMicro())
	}
	return r.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, r.sql.note, r.db.Given(), everyones, tenants, names, counts, ids, times, ats)
		return err
	})
}

// Stats returns the figures of a tenant or of everyone.
func (r *Store) Stats(ctx context.Context, q idempotency.Query) (s idempotency.Stats, err error) {
	tenant := postgres.Text(q.Tenant)
	if q.Everyone {
		tenant = ""
	}
	err = r.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		s = idempotency.Stats{}
		rows, err := conn.Query(ctx, r.sql.stats, q.Everyone, tenant)
		if err != nil {
			return err
		}
		var (
			name  string
			value int64
		)
		_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
			s.Add(postgres.Untext(name), value)
			return nil
		})
		return err
	})
	return s, postgres.ReadError(err)
}

// Recent returns the records that were replayed last.
func (r *Store) Recent(ctx context.Context, q idempotency.Query) (recent []idempotency.Record, err error) {
	err = r.db.Call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		recent = nil
		rows, err := conn.Query(ctx, r.sql.recent, r.db.Given(), q.Everyone, postgres.Text(q.Tenant), q.Max)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var row recordRow
			if err := rows.Scan(row.fields()...); err != nil {
				return err
			}
			recent = append(recent, row.record())
		}
		return rows.Err()
	})
	return recent, postgres.ReadError(err)
}
