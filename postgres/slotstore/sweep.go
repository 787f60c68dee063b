package slotstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/schedule"
)

// sweepStatements remove what is over. Each is about rows that an index gives
// in order, so what it costs does not depend on how many there are.
type sweepStatements struct {
	steady, plan                      string
	slots                             string
	runs, run                         string
	windowsUntil, emptyWindows, empty string
	entriesUntil, entries             string
}

func newSweepStatements(in func(string) string) sweepStatements {
	// The first slot from the beginning of a window on is not in it. Written
	// like this it is one step down an index for each window; as NOT EXISTS the
	// planner may also choose to read all slots.
	const empty = `coalesce((SELECT s.at FROM sluice.slot s WHERE s.plan = w.plan AND s.at >= w.start
		ORDER BY s.at LIMIT 1) >= w.start + w.size, true)`
	return sweepStatements{
		// Whatever the statistics say: rows in the order of an index, and no more
		// of them than are asked for.
		steady: in(`SELECT sluice.ready_v1($1), set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true),
			set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`),

		// One sweeps a plan at a time. Nobody waits for that.
		plan: in(`SELECT p.id, pg_try_advisory_xact_lock(hashtextextended('sluice.slot_sweep', p.id))
			FROM sluice.slot_plan p WHERE p.namespace = $1 AND p.name = $2`),

		slots: in(`DELETE FROM sluice.slot s USING (
				SELECT namespace, event FROM sluice.slot WHERE plan = $1 AND state >= 2 AND due < $2
				ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED
			) gone WHERE s.namespace = gone.namespace AND s.event = gone.event`),

		// Runs before windows, so that no run has windows that are not there.
		// Of the run that goes on, what is over is cut off.
		runs: in(`DELETE FROM sluice.slot_run r USING (
				SELECT start FROM sluice.slot_run WHERE plan = $1 AND start < $2 AND stop <= $2 ORDER BY start LIMIT $3
			) gone WHERE r.plan = $1 AND r.start = gone.start`),
		run: in(`UPDATE sluice.slot_run r SET start = first.start
			FROM (
				SELECT coalesce((SELECT CASE WHEN w.start + w.size > $2 THEN w.start END FROM sluice.slot_window w
					WHERE w.plan = $1 AND w.start < $2 ORDER BY w.start DESC LIMIT 1), $2) AS start
			) first
			WHERE r.plan = $1 AND r.start < first.start AND r.stop > $2 AND r.start =
				(SELECT start FROM sluice.slot_run WHERE plan = $1 AND start < $2 ORDER BY start DESC LIMIT 1)`),

		windowsUntil: in(`SELECT coalesce(max(start), 0), count(*) FROM (
				SELECT start FROM sluice.slot_window WHERE plan = $1 AND start > $2 AND start < $3 AND start + size <= $3 ORDER BY start LIMIT $4
			) looked`),
		emptyWindows: in(`SELECT w.start FROM sluice.slot_window w WHERE w.plan = $1 AND w.start > $2 AND w.start <= $3 AND w.start + w.size <= $4 AND ` + empty + `
			ORDER BY w.start FOR UPDATE SKIP LOCKED`),
		empty: in(`DELETE FROM sluice.slot_window w WHERE w.plan = $1 AND w.start = ANY($2) AND ` + empty),

		// Compared as pairs, so that only the index of both serves: by the number
		// alone it would read the entries of all plans.
		entriesUntil: in(`SELECT coalesce(max(id), 0), count(*) FROM (
				SELECT id FROM sluice.slot_audit WHERE (plan, id) > ($1, $2) AND plan < $1 + 1 ORDER BY plan, id LIMIT $3
			) looked`),
		entries: in("DELETE FROM sluice.slot_audit WHERE (plan, id) > ($1, $2) AND (plan, id) <= ($1, $3) AND time < $4"),
	}
}

// Sweep takes one step of removing what is older than it is kept.
func (s *Store) Sweep(ctx context.Context, q schedule.Sweeping) (swept schedule.Swept, err error) {
	sweep := map[schedule.SweepTarget]func(context.Context, pgx.Tx, int64, *schedule.Sweeping) (schedule.Swept, error){
		schedule.SweepSlots: s.sweepSlots, schedule.SweepWindows: s.sweepWindows, schedule.SweepAudit: s.sweepAudit,
	}[q.Target]
	if sweep == nil {
		return swept, errors.ErrUnsupported
	}
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		swept = schedule.Swept{}
		if _, err := tx.Exec(ctx, s.sql.sweep.steady, s.db.Patience()); err != nil {
			return err
		}
		var plan int64
		var alone bool
		err := tx.QueryRow(ctx, s.sql.sweep.plan, q.Namespace, q.Plan).Scan(&plan, &alone)
		if err != nil || !alone {
			return noPlan(err, q.Plan)
		}
		swept, err = sweep(ctx, tx, plan, &q)
		return err
	})
	return swept, err
}

func (s *Store) sweepSlots(ctx context.Context, tx pgx.Tx, plan int64, q *schedule.Sweeping) (schedule.Swept, error) {
	tag, err := tx.Exec(ctx, s.sql.sweep.slots, plan, q.Before.UnixMicro(), q.Max)
	n := int(tag.RowsAffected())
	return schedule.Swept{Removed: n, More: n == q.Max}, err
}

// sweepWindows finds windows without slots, locks them so that nobody assigns
// to them, and then removes those that are still without.
func (s *Store) sweepWindows(ctx context.Context, tx pgx.Tx, plan int64, q *schedule.Sweeping) (swept schedule.Swept, err error) {
	before := q.Before.UnixMicro()
	var free bool // else somebody is preparing windows; it can wait
	if err := tx.QueryRow(ctx, s.db.In("SELECT pg_try_advisory_xact_lock(hashtextextended('sluice.slot_run', $1))"), plan).Scan(&free); err != nil || !free {
		return swept, err
	}
	runs, err := tx.Exec(ctx, s.sql.sweep.runs, plan, before, q.Max)
	if err != nil {
		return swept, err
	}
	if _, err := tx.Exec(ctx, s.sql.sweep.run, plan, before); err != nil {
		return swept, err
	}
	var last int64
	var looked int
	if err := tx.QueryRow(ctx, s.sql.sweep.windowsUntil, plan, q.After, before, q.Max).Scan(&last, &looked); err != nil {
		return swept, err
	}
	rows, err := tx.Query(ctx, s.sql.sweep.emptyWindows, plan, q.After, last, before)
	if err != nil {
		return swept, err
	}
	starts, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return swept, err
	}
	tag, err := tx.Exec(ctx, s.sql.sweep.empty, plan, starts)
	return schedule.Swept{
		Removed: int(tag.RowsAffected()), More: looked == q.Max || int(runs.RowsAffected()) == q.Max, Next: max(last, q.After),
	}, err
}

// sweepAudit goes by the entries' numbers, which have about the order of their
// times, until it meets none that is old.
func (s *Store) sweepAudit(ctx context.Context, tx pgx.Tx, plan int64, q *schedule.Sweeping) (swept schedule.Swept, err error) {
	var last int64
	var looked int
	if err := tx.QueryRow(ctx, s.sql.sweep.entriesUntil, plan, q.After, q.Max).Scan(&last, &looked); err != nil {
		return swept, err
	}
	tag, err := tx.Exec(ctx, s.sql.sweep.entries, plan, q.After, last, q.Before.UnixMicro())
	n := int(tag.RowsAffected())
	return schedule.Swept{Removed: n, More: n > 0 && looked == q.Max, Next: max(last, q.After)}, err
}
