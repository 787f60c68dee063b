package sqlslots

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/schedule"
)

// What is removed is found by an index that has it in order, so what a step
// costs does not depend on how much there is.

// everything is what a plan consists of, slots first.
var everything = []sqldb.Rows{
	{Table: "slot", Key: "namespace, event", Order: "at", Index: "slot_by_time", Lock: " FOR UPDATE"},
	{Table: "slot_run", Key: "plan, start", Order: "start"},
	{Table: "slot_window", Key: "plan, start", Order: "start", Lock: " FOR UPDATE"},
	{Table: "slot_audit", Key: "id", Order: "plan, id", Index: "slot_audit_by_plan"},
	{Table: "slot_version", Key: "plan, version", Order: "version"},
}

var (
	oldSlots = sqldb.Rows{
		Table: "slot", Key: "namespace, event", Where: "plan = $1 AND state >= 2 AND due < $2", Order: "due", Max: "$3",
		Index: "slot_by_end", Lock: " FOR UPDATE SKIP LOCKED",
	}
	// Runs before windows, so that no run has windows that are not there.
	oldRuns = sqldb.Rows{Table: "slot_run", Key: "plan, start", Where: "plan = $1 AND start < $2 AND stop <= $2", Order: "start", Max: "$3"}
)

const (
	// Of the run that goes on, what is over is cut off.
	cutRun = `UPDATE sluice.slot_run AS r SET start = first.start
		FROM (
			SELECT coalesce((SELECT CASE WHEN w.start + w.size > $2 THEN w.start END FROM sluice.slot_window w
				WHERE w.plan = $1 AND w.start < $2 ORDER BY w.start DESC LIMIT 1), $2) AS start
		) first
		WHERE r.plan = $1 AND r.start < first.start AND r.stop > $2 AND r.start =
			(SELECT start FROM sluice.slot_run WHERE plan = $1 AND start < $2 ORDER BY start DESC LIMIT 1)`

	windowsUntil = `SELECT coalesce(max(start), 0), count(*) FROM (
			SELECT start FROM sluice.slot_window WHERE plan = $1 AND start > $2 AND start < $3 AND start + size <= $3 ORDER BY start LIMIT $4
		) looked`

	// The first slot from the beginning of a window on is not in it. Written
	// like this it is one step down an index for each window; as NOT EXISTS
	// PostgreSQL may also choose to read all slots.
	isEmpty = `coalesce((SELECT s.at FROM sluice.slot s WHERE s.plan = w.plan AND s.at >= w.start
		ORDER BY s.at LIMIT 1) >= w.start + w.size, true)`
	emptyWindows = `SELECT w.start FROM sluice.slot_window w WHERE w.plan = $1 AND w.start > $2 AND w.start <= $3 AND w.start + w.size <= $4
		AND ` + isEmpty + ` ORDER BY w.start FOR UPDATE SKIP LOCKED`
	removeEmpty = "DELETE FROM sluice.slot_window AS w WHERE w.plan = $1 AND w.start = $2 AND " + isEmpty

	// Compared as pairs, so that only the index of both serves: by the number
	// alone PostgreSQL would read the entries of all plans.
	entriesUntil = `SELECT coalesce(max(id), 0), count(*) FROM (
			SELECT id FROM sluice.slot_audit /*sqlite INDEXED BY slot_audit_by_plan */
			WHERE (plan, id) > ($1, $2) AND plan < $1 + 1 ORDER BY plan, id LIMIT $3
		) looked`
	removeEntries = `DELETE FROM sluice.slot_audit /*sqlite INDEXED BY slot_audit_by_plan */
		WHERE (plan, id) > ($1, $2) AND (plan, id) <= ($1, $3) AND time < $4`
)

// Sweeps are the statements of a sweep by what they find or remove, for tests
// of how they do that.
func (s *Store) Sweeps() map[string]string {
	return map[string]string{
		"slots": s.DB.Removal(oldSlots), "runs": s.DB.Removal(oldRuns), "run": cutRun,
		"windows looked at": windowsUntil, "empty windows": emptyWindows, "windows": removeEmpty,
		"entries looked at": entriesUntil, "entries": removeEntries,
	}
}

// Sweep takes one step of removing what is older than it is kept, or everything.
func (s *Store) Sweep(ctx context.Context, q schedule.Sweeping) (swept schedule.Swept, err error) {
	sweep := map[schedule.SweepTarget]func(sqldb.Tx, int64, *schedule.Sweeping) (schedule.Swept, error){
		schedule.SweepSlots: s.sweepSlots, schedule.SweepWindows: s.sweepWindows, schedule.SweepAudit: sweepAudit,
	}[q.Target]
	if sweep == nil && q.Target != schedule.SweepAll {
		return swept, errors.ErrUnsupported
	}
	err = s.DB.Update(ctx, func(tx sqldb.Tx) error {
		swept = schedule.Swept{}
		if err := exec(tx, s.Steady); err != nil {
			return err
		}
		if q.Target == schedule.SweepAll {
			swept, err = s.erase(tx, &q)
			return err
		}
		plan, err := planID(tx, q.Namespace, q.Plan)
		if err != nil {
			return err
		}
		// One sweeps a plan at a time. Nobody waits for that.
		if alone, err := tx.TryLock("slot_sweep", plan); err != nil || !alone {
			return err
		}
		swept, err = sweep(tx, plan, &q)
		return err
	})
	if err != nil {
		return schedule.Swept{}, err
	}
	return swept, nil
}

func (s *Store) sweepSlots(tx sqldb.Tx, plan int64, q *schedule.Sweeping) (schedule.Swept, error) {
	n, err := tx.Exec(sqldb.Do(s.DB.Removal(oldSlots), plan, q.Before.UnixMicro(), q.Max))
	return schedule.Swept{Removed: n, More: n == q.Max}, err
}

// sweepWindows finds windows without slots, locks them so that nobody assigns
// to them, and then removes those that are still without.
func (s *Store) sweepWindows(tx sqldb.Tx, plan int64, q *schedule.Sweeping) (swept schedule.Swept, err error) {
	before := q.Before.UnixMicro()
	// Who does not get the lock leaves those alone who prepare windows.
	if free, err := tx.TryLock("slot_run", plan); err != nil || !free {
		return swept, err
	}
	runs, err := tx.Exec(sqldb.Do(s.DB.Removal(oldRuns), plan, before, q.Max))
	if err != nil {
		return swept, err
	}
	if err := exec(tx, sqldb.Do(cutRun, plan, before)); err != nil {
		return swept, err
	}
	var last int64
	var looked int
	if _, err := sqldb.One(tx, []any{&last, &looked}, windowsUntil, plan, q.After, before, q.Max); err != nil {
		return swept, err
	}
	var remove []sqldb.Statement
	err = tx.Query(func(row sqldb.Row) error {
		var start int64
		err := row.Scan(&start)
		remove = append(remove, sqldb.Do(removeEmpty, plan, start))
		return err
	}, emptyWindows, plan, q.After, last, before)
	if err != nil {
		return swept, err
	}
	n, err := tx.Exec(remove...)
	return schedule.Swept{Removed: n, More: looked == q.Max || runs == q.Max, Next: max(last, q.After)}, err
}

// sweepAudit goes by the entries' numbers, which have about the order of their
// times, until it meets none that is old.
func sweepAudit(tx sqldb.Tx, plan int64, q *schedule.Sweeping) (swept schedule.Swept, err error) {
	var last int64
	var looked int
	if _, err := sqldb.One(tx, []any{&last, &looked}, entriesUntil, plan, q.After, q.Max); err != nil {
		return swept, err
	}
	n, err := tx.Exec(sqldb.Do(removeEntries, plan, q.After, last, q.Before.UnixMicro()))
	return schedule.Swept{Removed: n, More: n > 0 && looked == q.Max, Next: max(last, q.After)}, err
}

// erase removes rows of the first plan of a namespace, and then the plan.
func (s *Store) erase(tx sqldb.Tx, q *schedule.Sweeping) (erased schedule.Swept, err error) {
	var plan int64
	found, err := sqldb.One(tx, []any{&plan}, "SELECT id FROM sluice.slot_plan WHERE namespace = $1 ORDER BY name LIMIT 1", q.Namespace)
	if err != nil || !found {
		return erased, err
	}
	erased.More = true
	// Whoever uses the plan ends first. There is no such version, so then
	// nobody can.
	if err := tx.Lock("slot_plan", plan); err != nil {
		return erased, err
	}
	if err := exec(tx, sqldb.Do("UPDATE sluice.slot_plan SET version = -1, paused = true WHERE id = $1", plan)); err != nil {
		return erased, err
	}
	left := q.Max
	for i, rows := range everything {
		rows.Where, rows.Max = "plan = $1", "$2"
		n, err := tx.Exec(sqldb.Do(s.DB.Removal(rows), plan, left))
		if err != nil {
			return erased, err
		}
		if i == 0 {
			erased.Removed = n
		}
		if left -= n; left == 0 {
			return erased, nil
		}
	}
	return erased, exec(tx, sqldb.Do("DELETE FROM sluice.slot_plan WHERE id = $1", plan), s.Notify)
}
