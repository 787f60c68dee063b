package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/idempotency"
)

// Note adds to the figures.
func (r *Replays) Note(ctx context.Context, a *idempotency.Activity) error {
	var (
		everyones      []bool
		tenants, names []string
		counts         []int64
		ids            [][]byte
		times, ats     []int64
	)
	for _, c := range a.Counts {
		everyones = append(everyones, c.Everyone)
		tenants = append(tenants, text(c.Tenant))
		names = append(names, text(c.Name))
		counts = append(counts, c.N)
	}
	for _, p := range a.Replays {
		ids = append(ids, p.ID[:])
		times = append(times, p.N)
		ats = append(ats, p.At.UnixMicro())
	}
	return r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, r.sql.note, r.given(), everyones, tenants, names, counts, ids, times, ats)
		return err
	})
}

// Stats are the figures of a tenant or of everyone.
func (r *Replays) Stats(ctx context.Context, q idempotency.Query) (s idempotency.Stats, err error) {
	tenant := text(q.Tenant)
	if q.Everyone {
		tenant = ""
	}
	err = r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
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
			s.Add(untext(name), value)
			return nil
		})
		return err
	})
	return s, harmless(err)
}

// Recent finds the records replayed last.
func (r *Replays) Recent(ctx context.Context, q idempotency.Query) (recent []idempotency.Record, err error) {
	err = r.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		recent = nil
		rows, err := conn.Query(ctx, r.sql.recent, r.given(), q.Everyone, text(q.Tenant), q.Max)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var row replayRow
			if err := rows.Scan(row.fields()...); err != nil {
				return err
			}
			recent = append(recent, row.record())
		}
		return rows.Err()
	})
	return recent, harmless(err)
}
