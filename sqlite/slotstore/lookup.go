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

const selectSlot = `SELECT s.event, p.name, s.version, s.win, s.at, s.requested, s.created, s.state, s.attempts,
	s.due, s.worker, s.fence, s.payload FROM slot s JOIN slot_plan p ON p.id = s.plan `

func scanSlot(row scanner) (schedule.Slot, error) {
	var (
		s                                   schedule.Slot
		window, at, requested, created, due int64
		payload                             []byte
	)
	err := row.Scan(&s.Event, &s.Plan, &s.Version, &window, &at, &requested, &created, &s.State, &s.Attempts, &due, &s.Worker, &s.Fence, &payload)
	if err != nil {
		return s, err
	}
	s.Window, s.Scheduled, s.Requested, s.Created = micros(window), micros(at), micros(requested), micros(created)
	if s.State <= schedule.Running && due < math.MaxInt64 {
		s.Due = micros(due)
	}
	s.Payload = payload
	return s, nil
}

func scanSlots(rows *sql.Rows, err error) ([]schedule.Slot, error) {
	var all []schedule.Slot
	err = sqlite.Each(rows, err, func(rows *sql.Rows) error {
		s, err := scanSlot(rows)
		all = append(all, s)
		return err
	})
	return all, err
}

// Slot returns the slot of an event.
func (s *Store) Slot(ctx context.Context, namespace, event string) (schedule.Slot, error) {
	slot, err := scanSlot(s.db.Reader().QueryRowContext(ctx, selectSlot+"WHERE s.namespace = ? AND s.event = ?", namespace, event))
	if errors.Is(err, sql.ErrNoRows) {
		err = schedule.NoEvent(event)
	}
	return slot, wrapped(err)
}

// planID is the number of a plan, by which everything else goes.
func planID(ctx context.Context, tx *sql.Tx, namespace, name string) (id int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT id FROM slot_plan WHERE namespace = ? AND name = ?", namespace, name).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = schedule.NoPlan(name)
	}
	return id, err
}

// readPlan runs f with a plan's number.
func (s *Store) readPlan(ctx context.Context, namespace, name string, f func(tx *sql.Tx, id int64) error) error {
	return wrapped(s.db.Read(ctx, func(tx *sql.Tx) error {
		id, err := planID(ctx, tx, namespace, name)
		if err != nil {
			return err
		}
		return f(tx, id)
	}))
}

// SlotsBetween returns slots of a plan in the order of their times.
func (s *Store) SlotsBetween(ctx context.Context, namespace, plan string, from, to time.Time, after schedule.Position, max int) (slots []schedule.Slot, err error) {
	err = s.readPlan(ctx, namespace, plan, func(tx *sql.Tx, id int64) error {
		slots, err = scanSlots(tx.QueryContext(ctx, selectSlot+`WHERE s.plan = ?1 AND s.at >= max(?2, ?4) AND s.at < ?3
			AND (s.at, s.event) > (?4, ?5) ORDER BY s.at, s.event LIMIT ?6`,
			id, from.UnixMicro(), to.UnixMicro(), after.Scheduled, after.Event, max))
		return err
	})
	return slots, err
}

// Unstarted returns slots that nobody has claimed.
func (s *Store) Unstarted(ctx context.Context, namespace, plan string, created, scheduled time.Time, after schedule.Position, max int) (slots []schedule.Slot, err error) {
	err = s.readPlan(ctx, namespace, plan, func(tx *sql.Tx, id int64) error {
		// What was never claimed is due when it is scheduled.
		slots, err = scanSlots(tx.QueryContext(ctx, selectSlot+`WHERE s.plan = ?1 AND s.state < 2 AND s.state = 0 AND s.fence = 0
			AND s.created < ?2 AND s.due >= ?4 AND s.due < ?3 AND (s.at, s.event) > (?4, ?5) ORDER BY s.due, s.event LIMIT ?6`,
			id, created.UnixMicro(), scheduled.UnixMicro(), after.Scheduled, after.Event, max))
		return err
	})
	return slots, err
}

// Windows returns the windows of a plan that have events.
func (s *Store) Windows(ctx context.Context, namespace, plan string, from, to time.Time, max int) (windows []schedule.Window, err error) {
	err = s.readPlan(ctx, namespace, plan, func(tx *sql.Tx, id int64) error {
		rows, err := tx.QueryContext(ctx, `SELECT start, size, cap, used FROM slot_window
			WHERE plan = ? AND start >= ? AND start < ? AND used > 0 ORDER BY start LIMIT ?`, id, from.UnixMicro(), to.UnixMicro(), max)
		return sqlite.Each(rows, err, func(rows *sql.Rows) error {
			var w schedule.Window
			err := rows.Scan(&w.Start, &w.Size, &w.Max, &w.Used)
			windows = append(windows, w)
			return err
		})
	})
	return windows, err
}

// Cancel cancels a slot that is waiting.
func (s *Store) Cancel(ctx context.Context, namespace, event string, now time.Time, detail string) (schedule.Slot, error) {
	return s.takeBack(ctx, namespace, event, func(tx *sql.Tx, slot *schedule.Slot) error {
		if slot.State == schedule.Cancelled {
			return nil
		}
		if slot.State != schedule.Waiting {
			return fmt.Errorf("event %q is %s, too late to cancel: %w", event, slot.State, schedule.ErrConflict)
		}
		_, err := tx.ExecContext(ctx, "UPDATE slot SET state = ?, due = "+slotEnd+" WHERE namespace = ? AND event = ?", schedule.Cancelled, now.UnixMicro(), namespace, event)
		if err != nil {
			return err
		}
		slot.State, slot.Due = schedule.Cancelled, time.Time{}
		return giveBack(ctx, tx, namespace, slot, schedule.Withdrawn, now, detail)
	})
}

// Reclaim removes a slot that nobody has started.
func (s *Store) Reclaim(ctx context.Context, namespace, event string, now time.Time, detail string) (schedule.Slot, error) {
	return s.takeBack(ctx, namespace, event, func(tx *sql.Tx, slot *schedule.Slot) error {
		if slot.State != schedule.Waiting || slot.Fence != 0 {
			return fmt.Errorf("event %q has started: %w", event, schedule.ErrConflict)
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM slot WHERE namespace = ? AND event = ?", namespace, event); err != nil {
			return err
		}
		return giveBack(ctx, tx, namespace, slot, schedule.Reclaimed, now, detail)
	})
}

func (s *Store) takeBack(ctx context.Context, namespace, event string, f func(*sql.Tx, *schedule.Slot) error) (slot schedule.Slot, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		slot, err = scanSlot(tx.QueryRowContext(ctx, selectSlot+"WHERE s.namespace = ? AND s.event = ?", namespace, event))
		if errors.Is(err, sql.ErrNoRows) {
			return schedule.NoEvent(event)
		}
		if err != nil {
			return err
		}
		return f(tx, &slot)
	})
	return slot, wrapped(err)
}

// giveBack gives the room of a slot back to its window.
func giveBack(ctx context.Context, tx *sql.Tx, namespace string, slot *schedule.Slot, action schedule.Action, now time.Time, detail string) error {
	id, err := planID(ctx, tx, namespace, slot.Plan)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE slot_window SET used = used - 1, room = used - 1 < cap WHERE plan = ? AND start = ?",
		id, slot.Window.UnixMicro()); err != nil {
		return err
	}
	return audit(ctx, tx, namespace, id, &schedule.Entry{
		Time: now, Event: slot.Event, Action: action, Scheduled: slot.Scheduled, Detail: detail,
	})
}
