package replaystore

import (
	"context"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/sqldb"
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
	return r.db.Single(ctx, func(tx sqldb.Tx) error {
		_, err := tx.Exec(sqldb.Do("SELECT sluice.note_replays_v1($1, $2, $3, $4, $5, $6, $7, $8)",
			r.db.Given(), everyones, tenants, names, counts, ids, times, ats))
		return err
	})
}

// Stats returns the figures of a tenant or of everyone.
func (r *Store) Stats(ctx context.Context, q idempotency.Query) (s idempotency.Stats, err error) {
	tenant := postgres.Text(q.Tenant)
	if q.Everyone {
		tenant = ""
	}
	err = r.db.View(ctx, func(tx sqldb.Tx) error {
		s = idempotency.Stats{}
		return tx.Query(func(row sqldb.Row) error {
			var name string
			var value int64
			err := row.Scan(&name, &value)
			s.Add(postgres.Untext(name), value)
			return err
		}, "SELECT name, value FROM sluice.replay_figure WHERE everyone = $1 AND tenant = $2", q.Everyone, tenant)
	})
	return s, err
}

// Recent returns the records that were replayed last.
func (r *Store) Recent(ctx context.Context, q idempotency.Query) (recent []idempotency.Record, err error) {
	err = r.db.View(ctx, func(tx sqldb.Tx) error {
		recent, err = sqldb.All(tx, func(row sqldb.Row) (idempotency.Record, error) {
			var w recordRow
			err := row.Scan(w.fields()...)
			return w.record(), err
		}, "SELECT "+clock+", "+columns+`, NULL::bytea FROM sluice.replay
			WHERE replays > 0 AND expires > `+clock+` AND ($2 OR tenant = $3) ORDER BY replayed DESC, key LIMIT $4`,
			r.db.Given(), q.Everyone, postgres.Text(q.Tenant), q.Max)
		return err
	})
	return recent, err
}
