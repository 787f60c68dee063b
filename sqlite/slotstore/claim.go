package slotstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
)

// Claim takes slots that are due.
func (s *Store) Claim(ctx context.Context, c schedule.Claiming) (slots []schedule.Slot, err error) {
	if due, err := s.anyDue(ctx, &c); err != nil || !due {
		return nil, wrapped(err) // without keeping writers waiting
	}
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		id, err := planID(ctx, tx, c.Namespace, c.Plan)
		if err != nil {
			return err
		}
		slots, err = scanSlots(tx.QueryContext(ctx, selectSlot+`WHERE s.plan = ? AND NOT p.paused AND s.state < 2 AND s.due <= ?
			ORDER BY s.due LIMIT ?`, id, c.Now.UnixMicro(), c.Max))
		if err != nil {
			return err
		}
		for i := range slots {
			if err := claimSlot(ctx, tx, c.Namespace, id, &slots[i], schedule.Claimed, c.Worker, c.Now, c.Until.UnixMicro()); err != nil {
				return err
			}
		}
		return nil
	})
	return slots, wrapped(err)
}

func (s *Store) anyDue(ctx context.Context, c *schedule.Claiming) (due bool, err error) {
	err = s.readPlan(ctx, c.Namespace, c.Plan, func(tx *sql.Tx, id int64) error {
		return tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM slot WHERE plan = ? AND state < 2 AND due <= ?)", id, c.Now.UnixMicro()).Scan(&due)
	})
	return due, err
}

func claimSlot(ctx context.Context, tx *sql.Tx, namespace string, plan int64, slot *schedule.Slot, action schedule.Action, worker string, now time.Time, until int64) error {
	if slot.State == schedule.Running {
		if err := audit(ctx, tx, namespace, plan, &schedule.Entry{
			Time: now, Event: slot.Event, Action: schedule.Lost, Attempt: slot.Attempts, Fence: slot.Fence, Worker: slot.Worker, Scheduled: slot.Scheduled,
		}); err != nil {
			return err
		}
	}
	slot.State, slot.Worker, slot.Due = schedule.Running, worker, micros(until)
	slot.Attempts++
	slot.Fence++
	if _, err := tx.ExecContext(ctx, "UPDATE slot SET state = ?, worker = ?, due = ?, attempts = ?, fence = ? WHERE namespace = ? AND event = ?",
		slot.State, worker, until, slot.Attempts, slot.Fence, namespace, slot.Event); err != nil {
		return err
	}
	return audit(ctx, tx, namespace, plan, &schedule.Entry{
		Time: now, Event: slot.Event, Action: action, Attempt: slot.Attempts, Fence: slot.Fence, Worker: worker, Scheduled: slot.Scheduled,
	})
}

// ClaimEvent takes the slot of one event, until it is finished.
func (s *Store) ClaimEvent(ctx context.Context, namespace, event, worker string, now time.Time) (schedule.Slot, error) {
	return s.takeBack(ctx, namespace, event, func(tx *sql.Tx, slot *schedule.Slot) error {
		if slot.State != schedule.Waiting {
			return fmt.Errorf("event %q is %s, not waiting: %w", event, slot.State, schedule.ErrConflict)
		}
		id, err := planID(ctx, tx, namespace, slot.Plan)
		if err != nil {
			return err
		}
		err = claimSlot(ctx, tx, namespace, id, slot, schedule.Confirmed, worker, now, math.MaxInt64)
		slot.Due = time.Time{}
		return err
	})
}

// NextDue returns when the next slot of the plan is due.
func (s *Store) NextDue(ctx context.Context, namespace, plan string) (next time.Time, err error) {
	err = s.readPlan(ctx, namespace, plan, func(tx *sql.Tx, id int64) error {
		var due sql.NullInt64
		if err := tx.QueryRowContext(ctx, "SELECT min(due) FROM slot WHERE plan = ? AND state < 2 AND due < ?", id, int64(math.MaxInt64)).Scan(&due); err != nil {
			return err
		}
		next = fromMicros(due)
		return nil
	})
	return next, err
}

// Renew extends claims until a time.
func (s *Store) Renew(ctx context.Context, namespace string, claims []schedule.Claim, until time.Time) (lost []schedule.Claim, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		lost = nil
		for _, c := range claims {
			n, err := sqlite.Exec(ctx, tx, "UPDATE slot SET due = max(due, ?) WHERE namespace = ? AND event = ? AND fence = ? AND state = ?",
				until.UnixMicro(), namespace, c.Event, c.Fence, schedule.Running)
			if err != nil {
				return err
			}
			if n == 0 {
				lost = append(lost, c)
			}
		}
		return nil
	})
	return lost, wrapped(err)
}

// Finish ends a claim.
func (s *Store) Finish(ctx context.Context, namespace string, f schedule.Finish) error {
	state, back := f.State()
	return wrapped(s.db.Write(ctx, func(tx *sql.Tx) error {
		var plan, at int64
		e := schedule.Entry{
			Time: f.Now, Event: f.Event, Action: f.Action, Fence: f.Fence,
			Granted: f.Granted, Started: f.Started, Finished: f.Finished, Detail: f.Detail,
		}
		err := tx.QueryRowContext(ctx, `UPDATE slot SET state = ?, due = iif(?, ?, `+slotEnd+`), attempts = attempts - ?
			WHERE namespace = ? AND event = ? AND fence = ? AND state = ? RETURNING plan, at, attempts, worker`,
			state, state == schedule.Waiting, f.Due.UnixMicro(), f.Now.UnixMicro(), back, namespace, f.Event, f.Fence, schedule.Running).Scan(&plan, &at, &e.Attempt, &e.Worker)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("event %q, fence %d: %w", f.Event, f.Fence, schedule.ErrClaimLost)
		}
		if err != nil {
			return err
		}
		e.Scheduled = micros(at)
		return audit(ctx, tx, namespace, plan, &e)
	}))
}

// Audit returns entries of the audit log.
func (s *Store) Audit(ctx context.Context, namespace string, q schedule.AuditQuery) (all []schedule.Entry, err error) {
	if q.Before == 0 {
		q.Before = math.MaxInt64
	}
	where, args := "a.namespace = ? AND a.event = ? AND a.id < ?", []any{namespace, q.Event, q.Before, q.Max}
	if q.Event == "" {
		where, args = "a.plan = (SELECT id FROM slot_plan WHERE namespace = ? AND name = ?) AND a.id < ?", []any{namespace, q.Plan, q.Before, q.Max}
	}
	rows, err := s.db.Reader().QueryContext(ctx, `SELECT a.id, a.time, p.name, a.event, a.action, a.attempt, a.fence, a.worker,
		a.scheduled, a.granted, a.started, a.finished, a.detail
		FROM slot_audit a JOIN slot_plan p ON p.id = a.plan WHERE `+where+" ORDER BY a.id DESC LIMIT ?", args...)
	err = sqlite.Each(rows, err, func(rows *sql.Rows) error {
		var e schedule.Entry
		var at int64
		var scheduled, granted, started, finished sql.NullInt64
		err := rows.Scan(&e.ID, &at, &e.Plan, &e.Event, &e.Action, &e.Attempt, &e.Fence, &e.Worker, &scheduled, &granted, &started, &finished, &e.Detail)
		e.Time = micros(at)
		e.Scheduled, e.Granted, e.Started, e.Finished = fromMicros(scheduled), fromMicros(granted), fromMicros(started), fromMicros(finished)
		all = append(all, e)
		return err
	})
	return all, wrapped(err)
}
