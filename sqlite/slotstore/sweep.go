package slotstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
)

// slotEnd is when a slot that is finished now, or its window, ends.
const slotEnd = `max(?, at, coalesce(
	(SELECT w.start + w.size FROM slot_window w WHERE w.plan = slot.plan AND w.start = slot.win), 0))`

// The statements that remove what is over. Each is about rows that an index
// gives in order, so what it costs does not depend on how many there are.
const (
	sweepSlots = `DELETE FROM slot WHERE rowid IN
		(SELECT rowid FROM slot INDEXED BY slot_by_end WHERE plan = ? AND state >= 2 AND due < ? ORDER BY due LIMIT ?)`

	// Of the run that goes on, what is over is cut off.
	sweepRuns = `DELETE FROM slot_run WHERE plan = ?1 AND start IN
		(SELECT start FROM slot_run WHERE plan = ?1 AND start < ?2 AND stop <= ?2 ORDER BY start LIMIT ?3)`
	sweepRun = `UPDATE slot_run SET start = first.start
		FROM (
			SELECT coalesce((SELECT iif(w.start + w.size > ?2, w.start, NULL) FROM slot_window w
				WHERE w.plan = ?1 AND w.start < ?2 ORDER BY w.start DESC LIMIT 1), ?2) AS start
		) AS first
		WHERE slot_run.plan = ?1 AND slot_run.start < first.start AND slot_run.stop > ?2 AND slot_run.start =
			(SELECT start FROM slot_run WHERE plan = ?1 AND start < ?2 ORDER BY start DESC LIMIT 1)`

	sweepWindowsUntil = `SELECT coalesce(max(start), 0), count(*) FROM
		(SELECT start FROM slot_window WHERE plan = ?1 AND start > ?2 AND start < ?3 AND start + size <= ?3 ORDER BY start LIMIT ?4)`
	sweepWindows = `DELETE FROM slot_window WHERE plan = ?1 AND start > ?2 AND start <= ?3 AND start + size <= ?4 AND NOT EXISTS
		(SELECT 1 FROM slot s WHERE s.plan = ?1 AND s.at >= slot_window.start AND s.at < slot_window.start + slot_window.size)`

	sweepEntriesUntil = `SELECT coalesce(max(id), 0), count(*) FROM
		(SELECT id FROM slot_audit INDEXED BY slot_audit_by_plan WHERE plan = ? AND id > ? ORDER BY id LIMIT ?)`
	sweepEntries = "DELETE FROM slot_audit INDEXED BY slot_audit_by_plan WHERE plan = ? AND id > ? AND id <= ? AND time < ?"
)

// Sweep takes one step of removing what is older than it is kept.
func (s *Store) Sweep(ctx context.Context, q schedule.Sweeping) (swept schedule.Swept, err error) {
	sweep := map[schedule.SweepTarget]func(context.Context, *sql.Tx, int64, *schedule.Sweeping) (schedule.Swept, error){
		schedule.SweepSlots: sweepOldSlots, schedule.SweepWindows: sweepOldWindows, schedule.SweepAudit: sweepOldEntries,
	}[q.Target]
	if sweep == nil {
		return swept, errors.ErrUnsupported
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		plan, err := planID(ctx, tx, q.Namespace, q.Plan)
		if err != nil {
			return err
		}
		swept, err = sweep(ctx, tx, plan, &q)
		return err
	})
	if err != nil {
		return schedule.Swept{}, wrapped(err)
	}
	return swept, nil
}

func sweepOldSlots(ctx context.Context, tx *sql.Tx, plan int64, q *schedule.Sweeping) (schedule.Swept, error) {
	n, err := sqlite.Exec(ctx, tx, sweepSlots, plan, q.Before.UnixMicro(), q.Max)
	return schedule.Swept{Removed: n, More: n == q.Max}, err
}

func sweepOldWindows(ctx context.Context, tx *sql.Tx, plan int64, q *schedule.Sweeping) (swept schedule.Swept, err error) {
	before := q.Before.UnixMicro()
	runs, err := sqlite.Exec(ctx, tx, sweepRuns, plan, before, q.Max)
	if err != nil {
		return swept, err
	}
	if _, err := sqlite.Exec(ctx, tx, sweepRun, plan, before); err != nil {
		return swept, err
	}
	var last int64
	var looked int
	if err := tx.QueryRowContext(ctx, sweepWindowsUntil, plan, q.After, before, q.Max).Scan(&last, &looked); err != nil {
		return swept, err
	}
	n, err := sqlite.Exec(ctx, tx, sweepWindows, plan, q.After, last, before)
	return schedule.Swept{Removed: n, More: looked == q.Max || runs == q.Max, Next: max(last, q.After)}, err
}

// sweepOldEntries goes by the entries' numbers, which have about the order of
// their times, until it meets none that is old.
func sweepOldEntries(ctx context.Context, tx *sql.Tx, plan int64, q *schedule.Sweeping) (swept schedule.Swept, err error) {
	var last int64
	var looked int
	if err := tx.QueryRowContext(ctx, sweepEntriesUntil, plan, q.After, q.Max).Scan(&last, &looked); err != nil {
		return swept, err
	}
	n, err := sqlite.Exec(ctx, tx, sweepEntries, plan, q.After, last, q.Before.UnixMicro())
	return schedule.Swept{Removed: n, More: n > 0 && looked == q.Max, Next: max(last, q.After)}, err
}
