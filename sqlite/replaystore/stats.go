package replaystore

import (
	"context"
	"database/sql"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/sqlite"
)

// Note adds to the figures.
func (r *Store) Note(ctx context.Context, a *idempotency.Activity) error {
	now := r.clock().UnixMicro()
	return fault(r.db.Write(ctx, func(tx *sql.Tx) error {
		for _, c := range a.Counts {
			_, err := tx.ExecContext(ctx, `INSERT INTO replay_figure (everyone, tenant, name, value, at) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET value = value + excluded.value, at = excluded.at`,
				c.Everyone, []byte(c.Tenant), c.Name, c.N, now)
			if err != nil {
				return err
			}
		}
		for _, p := range a.Replays {
			_, err := tx.ExecContext(ctx, "UPDATE replay SET replays = replays + ?, replayed = max(replayed, ?) WHERE id = ?",
				p.N, p.At.UnixMicro(), p.ID[:])
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// Stats returns the figures of a tenant or of everyone.
func (r *Store) Stats(ctx context.Context, q idempotency.Query) (s idempotency.Stats, err error) {
	if q.Everyone {
		q.Tenant = ""
	}
	err = r.db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT name, value FROM replay_figure WHERE everyone = ? AND tenant = ?", q.Everyone, []byte(q.Tenant))
		return sqlite.Each(rows, err, func(rows *sql.Rows) error {
			var (
				name  string
				value int64
			)
			err := rows.Scan(&name, &value)
			s.Add(name, value)
			return err
		})
	})
	return s, fault(err)
}

// Recent returns the records that were replayed last.
func (r *Store) Recent(ctx context.Context, q idempotency.Query) (recent []idempotency.Record, err error) {
	now := r.clock()
	err = r.db.Read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT "+columns+`, NULL FROM replay
			WHERE replays > 0 AND expires > ? AND (? OR tenant = ?) ORDER BY replayed DESC, key LIMIT ?`,
			now.UnixMicro(), q.Everyone, []byte(q.Tenant), q.Max)
		return sqlite.Each(rows, err, func(rows *sql.Rows) error {
			record, err := scanRecord(rows.Scan, now)
			if err == nil {
				recent = append(recent, *record)
			}
			return err
		})
	})
	return recent, fault(err)
}
