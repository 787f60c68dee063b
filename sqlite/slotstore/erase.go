package slotstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
)

// eraseSlots are what removes rows of a plan, slots first. Each finds them by
// an index.
var eraseSlots = []string{
	"DELETE FROM slot WHERE rowid IN (SELECT rowid FROM slot INDEXED BY slot_by_time WHERE plan = ? LIMIT ?)",
	"DELETE FROM slot_run WHERE (plan, start) IN (SELECT plan, start FROM slot_run WHERE plan = ? LIMIT ?)",
	"DELETE FROM slot_window WHERE (plan, start) IN (SELECT plan, start FROM slot_window WHERE plan = ? LIMIT ?)",
	"DELETE FROM slot_audit WHERE id IN (SELECT id FROM slot_audit INDEXED BY slot_audit_by_plan WHERE plan = ? LIMIT ?)",
	"DELETE FROM slot_version WHERE (plan, version) IN (SELECT plan, version FROM slot_version WHERE plan = ? LIMIT ?)",
}

// Erase takes one step of removing everything in a namespace: rows of its
// first plan, and then the plan.
func (s *Store) Erase(ctx context.Context, namespace string, max int) (erased schedule.Swept, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		erased = schedule.Swept{}
		// There is no such version, so the plan can be used no more.
		var plan int64
		err := tx.QueryRowContext(ctx, `UPDATE slot_plan SET version = -1, paused = 1
			WHERE id = (SELECT id FROM slot_plan WHERE namespace = ? ORDER BY name LIMIT 1) RETURNING id`, namespace).Scan(&plan)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		erased.More = true
		for i, statement := range eraseSlots {
			n, err := sqlite.Exec(ctx, tx, statement, plan, max)
			if err != nil {
				return err
			}
			if i == 0 {
				erased.Removed = n
			}
			if max -= n; max == 0 {
				return nil
			}
		}
		if _, err := sqlite.Exec(ctx, tx, "DELETE FROM slot_plan WHERE id = ?", plan); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE slot_flush SET n = n + 1")
		return err
	})
	if err != nil {
		return schedule.Swept{}, wrapped(err)
	}
	return erased, nil
}
