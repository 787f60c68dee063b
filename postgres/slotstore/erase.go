package slotstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/schedule"
)

// eraseSlots are what removes rows of a plan, slots first. Each finds them by
// an index.
var eraseSlots = []string{
	`DELETE FROM sluice.slot s USING (
		SELECT namespace, event FROM sluice.slot WHERE plan = $1 ORDER BY at LIMIT $2 FOR UPDATE
	) gone WHERE s.namespace = gone.namespace AND s.event = gone.event`,
	`DELETE FROM sluice.slot_run r USING (
		SELECT start FROM sluice.slot_run WHERE plan = $1 ORDER BY start LIMIT $2
	) gone WHERE r.plan = $1 AND r.start = gone.start`,
	`DELETE FROM sluice.slot_window w USING (
		SELECT start FROM sluice.slot_window WHERE plan = $1 ORDER BY start LIMIT $2 FOR UPDATE
	) gone WHERE w.plan = $1 AND w.start = gone.start`,
	`DELETE FROM sluice.slot_audit a USING (
		SELECT id FROM sluice.slot_audit WHERE plan = $1 ORDER BY plan, id LIMIT $2
	) gone WHERE a.id = gone.id`,
	`DELETE FROM sluice.slot_version v USING (
		SELECT version FROM sluice.slot_version WHERE plan = $1 ORDER BY version LIMIT $2
	) gone WHERE v.plan = $1 AND v.version = gone.version`,
}

// Erase takes one step of removing everything in a namespace: rows of its
// first plan, and then the plan.
func (s *Store) Erase(ctx context.Context, namespace string, max int) (erased schedule.Swept, err error) {
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		erased = schedule.Swept{}
		if _, err := tx.Exec(ctx, s.sql.sweep.steady, s.db.Patience()); err != nil {
			return err
		}
		var plan int64
		err := tx.QueryRow(ctx, s.db.In("SELECT id FROM sluice.slot_plan WHERE namespace = $1 ORDER BY name LIMIT 1"), namespace).Scan(&plan)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		erased.More = true
		// Whoever uses the plan ends first. There is no such version, so then
		// nobody can.
		b := &pgx.Batch{}
		b.Queue(s.db.In("SELECT pg_advisory_xact_lock(hashtextextended('sluice.slot_plan', $1))"), plan)
		b.Queue(s.db.In("UPDATE sluice.slot_plan SET version = -1, paused = true WHERE id = $1"), plan)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		left := max
		for i, statement := range eraseSlots {
			tag, err := tx.Exec(ctx, s.db.In(statement), plan, left)
			if err != nil {
				return err
			}
			n := int(tag.RowsAffected())
			if i == 0 {
				erased.Removed = n
			}
			if left -= n; left == 0 {
				return nil
			}
		}
		if _, err := tx.Exec(ctx, s.db.In("DELETE FROM sluice.slot_plan WHERE id = $1"), plan); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "SELECT pg_notify($1, '')", s.channel())
		return err
	})
	return erased, err
}
