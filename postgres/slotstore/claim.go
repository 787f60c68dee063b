package slotstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/schedule"
)

// Claim takes slots that are due.
func (s *Store) Claim(ctx context.Context, c schedule.Claiming) ([]schedule.Slot, error) {
	return s.slotList(ctx, s.sql.claim, c.Namespace, c.Plan, c.Now.UnixMicro(), c.Max, c.Worker, c.Until.UnixMicro())
}

// ClaimEvent takes the slot of one event, until it is finished.
func (s *Store) ClaimEvent(ctx context.Context, namespace, event, worker string, now time.Time) (schedule.Slot, error) {
	return s.withSlot(ctx, namespace, event, func(ctx context.Context, tx pgx.Tx, plan int64, slot *schedule.Slot) error {
		if slot.State != schedule.Waiting {
			return errState(event, slot.State, "not waiting")
		}
		slot.State, slot.Worker, slot.Due = schedule.Running, worker, time.Time{}
		slot.Attempts++
		slot.Fence++
		if _, err := tx.Exec(ctx, s.db.In("UPDATE sluice.slot SET state = 1, worker = $3, due = $4, attempts = $5, fence = $6 WHERE namespace = $1 AND event = $2"),
			namespace, event, worker, int64(math.MaxInt64), slot.Attempts, slot.Fence); err != nil {
			return err
		}
		return s.audit(ctx, tx, namespace, plan, &schedule.Entry{
			Time: now, Event: event, Action: schedule.Confirmed, Attempt: slot.Attempts, Fence: slot.Fence, Worker: worker, Scheduled: slot.Scheduled,
		})
	})
}

// NextDue returns when the next slot of the plan is due.
func (s *Store) NextDue(ctx context.Context, namespace, plan string) (next time.Time, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var due *int64
		if err := conn.QueryRow(ctx, s.sql.nextDue, namespace, plan, int64(math.MaxInt64)).Scan(&due); err != nil {
			return err
		}
		next = fromMicrosOrNull(due)
		return nil
	})
	return next, err
}

// Renew extends claims until a time.
func (s *Store) Renew(ctx context.Context, namespace string, claims []schedule.Claim, until time.Time) (lost []schedule.Claim, err error) {
	events, fences := make([]string, len(claims)), make([]int64, len(claims))
	for i, c := range claims {
		events[i], fences[i] = c.Event, c.Fence
	}
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, s.sql.renew, namespace, events, fences, until.UnixMicro())
		if err != nil {
			return err
		}
		kept, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		has := make(map[string]bool, len(kept))
		for _, event := range kept {
			has[event] = true
		}
		lost = nil
		for _, c := range claims {
			if !has[c.Event] {
				lost = append(lost, c)
			}
		}
		return nil
	})
	return lost, err
}

// Finish ends a claim.
func (s *Store) Finish(ctx context.Context, namespace string, f schedule.Finish) error {
	state, back := f.State()
	var due *int64
	if state == schedule.Waiting {
		due = microsOrNull(f.Due)
	}
	return s.change(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var plan, at int64
		e := schedule.Entry{
			Time: f.Now, Event: f.Event, Action: f.Action, Fence: f.Fence,
			Granted: f.Granted, Started: f.Started, Finished: f.Finished, Detail: f.Detail,
		}
		err := tx.QueryRow(ctx, s.sql.finish, namespace, f.Event, f.Fence, int16(state), due, back, f.Now.UnixMicro()).Scan(&plan, &at, &e.Attempt, &e.Worker)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("event %q, fence %d: %w", f.Event, f.Fence, schedule.ErrClaimLost)
		}
		if err != nil {
			return err
		}
		e.Scheduled = fromMicros(at)
		return s.audit(ctx, tx, namespace, plan, &e)
	})
}

// Audit returns entries of the audit log.
func (s *Store) Audit(ctx context.Context, namespace string, q schedule.AuditQuery) (all []schedule.Entry, err error) {
	if q.Before == 0 {
		q.Before = math.MaxInt64
	}
	where, subject := "a.namespace = $1 AND a.event = $2", q.Event
	if q.Event == "" {
		where, subject = "a.plan = (SELECT id FROM sluice.slot_plan WHERE namespace = $1 AND name = $2)", q.Plan
	}
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, s.sql.audit+s.db.In(where)+" AND a.id < $3 ORDER BY a.id DESC LIMIT $4", namespace, subject, q.Before, q.Max)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e schedule.Entry, err error) {
			var at int64
			var scheduled, granted, started, finished *int64
			err = row.Scan(&e.ID, &at, &e.Plan, &e.Event, &e.Action, &e.Attempt, &e.Fence, &e.Worker, &scheduled, &granted, &started, &finished, &e.Detail)
			e.Time = fromMicros(at)
			e.Scheduled, e.Granted, e.Started, e.Finished = fromMicrosOrNull(scheduled), fromMicrosOrNull(granted), fromMicrosOrNull(started), fromMicrosOrNull(finished)
			return e, err
		})
		return err
	})
	return all, err
}
