package slotstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/schedule"
)

func scanStoredSlot(row pgx.CollectableRow) (schedule.Slot, error) {
	var (
		s                                   schedule.Slot
		state                               int16
		window, at, requested, created, due int64
		payload                             []byte
	)
	err := row.Scan(&s.Event, &s.Plan, &s.Version, &window, &at, &requested, &created, &state, &s.Attempts, &due, &s.Worker, &s.Fence, &payload)
	s.State, s.Payload = schedule.State(state), payload
	s.Window, s.Scheduled, s.Requested, s.Created = fromMicros(window), fromMicros(at), fromMicros(requested), fromMicros(created)
	if s.State <= schedule.Running && due < math.MaxInt64 {
		s.Due = fromMicros(due)
	}
	return s, err
}

func (s *Store) slotList(ctx context.Context, sql string, args ...any) (slots []schedule.Slot, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		slots, err = pgx.CollectRows(rows, scanStoredSlot)
		return err
	})
	return slots, err
}

// Slot returns the slot of an event.
func (s *Store) Slot(ctx context.Context, namespace, event string) (schedule.Slot, error) {
	slots, err := s.slotList(ctx, s.sql.slot, namespace, []string{event})
	if err == nil && len(slots) == 0 {
		err = schedule.NoEvent(event)
	}
	if err != nil {
		return schedule.Slot{}, err
	}
	return slots[0], nil
}

// SlotsBetween returns slots of a plan in the order of their times.
func (s *Store) SlotsBetween(ctx context.Context, namespace, plan string, from, to time.Time, after schedule.Position, max int) ([]schedule.Slot, error) {
	if err := s.mustKnow(ctx, namespace, plan); err != nil {
		return nil, err
	}
	return s.slotList(ctx, s.sql.between, namespace, plan, from.UnixMicro(), to.UnixMicro(), after.Scheduled, after.Event, max)
}

// Unstarted returns slots that nobody has claimed.
func (s *Store) Unstarted(ctx context.Context, namespace, plan string, created, scheduled time.Time, after schedule.Position, max int) ([]schedule.Slot, error) {
	if err := s.mustKnow(ctx, namespace, plan); err != nil {
		return nil, err
	}
	return s.slotList(ctx, s.sql.unstarted, namespace, plan, created.UnixMicro(), scheduled.UnixMicro(), after.Scheduled, after.Event, max)
}

// mustKnow is an error if there is no such plan.
func (s *Store) mustKnow(ctx context.Context, namespace, plan string) error {
	return s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var id int64
		return noPlan(conn.QueryRow(ctx, s.db.In("SELECT id FROM sluice.slot_plan WHERE namespace = $1 AND name = $2"), namespace, plan).Scan(&id), plan)
	})
}

// Windows returns the windows of a plan that have events.
func (s *Store) Windows(ctx context.Context, namespace, plan string, from, to time.Time, max int) (windows []schedule.Window, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, s.sql.windows, namespace, plan, from.UnixMicro(), to.UnixMicro(), max)
		if err != nil {
			return err
		}
		windows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (w schedule.Window, err error) {
			err = row.Scan(&w.Start, &w.Size, &w.Max, &w.Used)
			return w, err
		})
		return err
	})
	return windows, err
}

// Cancel cancels a slot that is waiting.
func (s *Store) Cancel(ctx context.Context, namespace, event string, now time.Time, detail string) (schedule.Slot, error) {
	return s.withSlot(ctx, namespace, event, func(ctx context.Context, tx pgx.Tx, plan int64, slot *schedule.Slot) error {
		if slot.State == schedule.Cancelled {
			return nil
		}
		if slot.State != schedule.Waiting {
			return errState(event, slot.State, "too late to cancel")
		}
		if _, err := tx.Exec(ctx, s.sql.cancel, namespace, event, int16(schedule.Cancelled), now.UnixMicro()); err != nil {
			return err
		}
		slot.State, slot.Due = schedule.Cancelled, time.Time{}
		return s.returnRoom(ctx, tx, namespace, plan, slot, schedule.Withdrawn, now, detail)
	})
}

// Reclaim removes a slot that nobody has started.
func (s *Store) Reclaim(ctx context.Context, namespace, event string, now time.Time, detail string) (schedule.Slot, error) {
	return s.withSlot(ctx, namespace, event, func(ctx context.Context, tx pgx.Tx, plan int64, slot *schedule.Slot) error {
		if slot.State != schedule.Waiting || slot.Fence != 0 {
			return fmt.Errorf("event %q has started: %w", event, schedule.ErrConflict)
		}
		if _, err := tx.Exec(ctx, s.db.In("DELETE FROM sluice.slot WHERE namespace = $1 AND event = $2"), namespace, event); err != nil {
			return err
		}
		return s.returnRoom(ctx, tx, namespace, plan, slot, schedule.Reclaimed, now, detail)
	})
}

// withSlot runs f in a transaction that has locked the slot of an event.
func (s *Store) withSlot(ctx context.Context, namespace, event string, f func(ctx context.Context, tx pgx.Tx, plan int64, slot *schedule.Slot) error) (slot schedule.Slot, err error) {
	err = s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var plan int64
		err := tx.QueryRow(ctx, s.db.In("SELECT plan FROM sluice.slot WHERE namespace = $1 AND event = $2 FOR NO KEY UPDATE"), namespace, event).Scan(&plan)
		if err != nil {
			return noEvent(err, event)
		}
		slots, err := s.existing(ctx, tx, namespace, []string{event})
		if err != nil {
			return err
		}
		slot = slots[event]
		return f(ctx, tx, plan, &slot)
	})
	return slot, err
}

// returnRoom gives the room of a slot back to its window.
func (s *Store) returnRoom(ctx context.Context, tx pgx.Tx, namespace string, plan int64, slot *schedule.Slot, action schedule.Action, now time.Time, detail string) error {
	if _, err := tx.Exec(ctx, s.sql.giveBack, plan, slot.Window.UnixMicro()); err != nil {
		return err
	}
	return s.audit(ctx, tx, namespace, plan, &schedule.Entry{
		Time: now, Event: slot.Event, Action: action, Scheduled: slot.Scheduled, Detail: detail,
	})
}
