package sqlslots

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/schedule"
)

// never is when a claim that does not run out is due.
const never = int64(math.MaxInt64)

// Columns are what [Scan] reads of a slot s and its plan p.
const Columns = `s.event, p.name, s.version, s.win, s.at, s.requested, s.created, s.state, s.attempts,
	s.due, s.sent, coalesce(s.worker, ''), s.fence, s.payload`

const slots = "SELECT " + Columns + " FROM sluice.slot s JOIN sluice.slot_plan p ON p.id = s.plan WHERE "

// OfEvent selects the slot of an event.
const OfEvent = slots + "s.namespace = $1 AND s.event = $2"

// Scan reads a slot.
func Scan(row sqldb.Row) (s schedule.Slot, err error) {
	var (
		state                               int16
		window, at, requested, created, due int64
		sent                                *int64
		payload                             []byte
	)
	err = row.Scan(&s.Event, &s.Plan, &s.Version, &window, &at, &requested, &created, &state, &s.Attempts, &due, &sent, &s.Worker, &s.Fence, &payload)
	s.State, s.Payload = schedule.State(state), payload
	s.Window, s.Scheduled, s.Requested, s.Created = Time(window), Time(at), Time(requested), Time(created)
	switch {
	case s.State == schedule.Running && sent != nil && due == never: // otherwise sent is of an earlier claim
		s.State, s.Due = schedule.Unknown, Time(*sent)
	case s.State <= schedule.Running && due < never:
		s.Due = Time(due)
	}
	return s, err
}

// New is the slot that a search has got.
func New(q *schedule.Search, window, at int64) schedule.Slot {
	return schedule.Slot{
		Event: q.Event, Plan: q.PlanName, Version: q.Version, Window: Time(window), Scheduled: Time(at),
		Requested: Time(q.Requested), Created: Time(q.Now), Due: Time(at), Payload: q.Payload,
	}
}

// Existing is the answer to a search for an event that has a slot.
func Existing(slot schedule.Slot, q *schedule.Search) schedule.Found {
	slot.Existing = true
	if slot.Plan != q.PlanName {
		return schedule.Found{Status: schedule.Elsewhere, Slot: slot}
	}
	return schedule.Found{Status: schedule.Existed, Slot: slot}
}

// Payload is a payload as it is stored.
func Payload(p json.RawMessage) []byte {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Slots lists slots.
func (s *Store) Slots(ctx context.Context, q schedule.Selection) (found []schedule.Slot, err error) {
	err = s.DB.View(ctx, func(tx sqldb.Tx) error {
		if q.Event != "" {
			found, err = sqldb.All(tx, Scan, OfEvent, q.Namespace, q.Event)
			return err
		}
		plan, err := planID(tx, q.Namespace, q.Plan)
		if err != nil {
			return err
		}
		from, to, after := q.From.UnixMicro(), q.To.UnixMicro(), q.After
		switch q.Order {
		case schedule.ByTime:
			found, err = sqldb.All(tx, Scan, slots+`s.plan = $1 AND s.at >= greatest($2::bigint, $4) AND s.at < $3
				AND (s.at, s.event) > ($4, $5 COLLATE "C") ORDER BY s.at, s.event LIMIT $6`, plan, from, to, after.Scheduled, after.Event, q.Max)
		case schedule.Unstarted:
			// What was never claimed is due when it is scheduled.
			found, err = sqldb.All(tx, Scan, slots+`s.plan = $1 AND s.state < 2 AND s.state = 0 AND s.fence = 0
				AND s.created < $2 AND s.due < $3 AND s.due >= $4 AND (s.at, s.event) > ($4, $5 COLLATE "C")
				ORDER BY s.due, s.event LIMIT $6`, plan, from, to, after.Scheduled, after.Event, q.Max)
		case schedule.GivenUp:
			found, err = sqldb.All(tx, Scan, slots+`s.plan = $1 AND s.state = 3 AND s.at >= $2
				AND (s.at, s.event) > ($2, $3 COLLATE "C") ORDER BY s.at, s.event LIMIT $4`, plan, after.Scheduled, after.Event, q.Max)
		case schedule.InDoubt:
			found, err = sqldb.All(tx, Scan, slots+`s.plan = $1 AND s.sent IS NOT NULL AND s.sent <= $2 AND s.state = 1 AND s.due = $3 AND s.at >= $4
				AND (s.at, s.event) > ($4, $5 COLLATE "C") ORDER BY s.at, s.event LIMIT $6`, plan, to, never, after.Scheduled, after.Event, q.Max)
		case schedule.ByDue:
			found, err = sqldb.All(tx, Scan, slots+"s.plan = $1 AND s.state < 2 AND s.due < $2 ORDER BY s.due LIMIT $3", plan, never, q.Max)
		}
		return err
	})
	return found, err
}

// Windows returns the windows of a plan that have events.
func (s *Store) Windows(ctx context.Context, q schedule.Selection) (windows []schedule.Window, err error) {
	err = s.DB.View(ctx, func(tx sqldb.Tx) error {
		plan, err := planID(tx, q.Namespace, q.Plan)
		if err != nil {
			return err
		}
		windows, err = sqldb.All(tx, func(row sqldb.Row) (w schedule.Window, err error) {
			err = row.Scan(&w.Start, &w.Size, &w.Max, &w.Used)
			return w, err
		}, `SELECT start, size, cap, used FROM sluice.slot_window
			WHERE plan = $1 AND start >= $2 AND start < $3 AND used > 0 ORDER BY start LIMIT $4`, plan, q.From.UnixMicro(), q.To.UnixMicro(), q.Max)
		return err
	})
	return windows, err
}

// Change changes the slot of an event.
func (s *Store) Change(ctx context.Context, c schedule.Change) (slot schedule.Slot, err error) {
	err = s.DB.Update(ctx, func(tx sqldb.Tx) error {
		var plan int64
		if _, err := sqldb.One(tx, []any{&plan}, "SELECT plan FROM sluice.slot WHERE namespace = $1 AND event = $2 FOR NO KEY UPDATE", c.Namespace, c.Event); err != nil {
			return err
		}
		all, err := sqldb.All(tx, Scan, OfEvent, c.Namespace, c.Event)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return c.Missing()
		}
		slot = all[0]
		if c.Action == schedule.Reclaimed {
			if err := reclaimable(tx, plan, slot.Plan); err != nil {
				return err
			}
		}
		return Apply(tx, plan, &slot, &c)
	})
	return slot, err
}

// reclaimable returns an error if what waits in a plan is to stay.
func reclaimable(tx sqldb.Tx, id int64, name string) error {
	p := schedule.Plan{Name: name}
	if _, err := sqldb.One(tx, []any{&p.Paused, &p.Dispatched}, "SELECT paused, dispatched FROM sluice.slot_plan WHERE id = $1", id); err != nil {
		return err
	}
	return p.Reclaimable()
}

// Apply changes a slot that the transaction has locked.
func Apply(tx sqldb.Tx, plan int64, slot *schedule.Slot, c *schedule.Change) error {
	entries, room, err := c.Apply(slot)
	if err != nil || len(entries) == 0 {
		return err
	}
	due, ends, state := never, "$7", slot.State
	var sent *int64
	switch {
	case slot.State == schedule.Unknown:
		state, sent = schedule.Running, orNull(slot.Due)
	case slot.State > schedule.Running:
		// When it is finished, or its window is over.
		due, ends = c.Now.UnixMicro(), `greatest($7::bigint, at, coalesce(
			(SELECT w.start + w.size FROM sluice.slot_window w WHERE w.plan = slot.plan AND w.start = slot.win), 0))`
	case !slot.Due.IsZero():
		due = slot.Due.UnixMicro()
	}
	write := sqldb.Do("UPDATE sluice.slot SET state = $3, worker = $4, attempts = $5, fence = $6, due = "+ends+", sent = $8 WHERE namespace = $1 AND event = $2",
		c.Namespace, c.Event, int16(state), slot.Worker, slot.Attempts, slot.Fence, due, sent)
	if c.Action == schedule.Purged {
		write = sqldb.Do("DELETE FROM sluice.slot WHERE namespace = $1 AND event = $2", c.Namespace, c.Event)
	}
	statements := []sqldb.Statement{write}
	if room {
		statements = append(statements, sqldb.Do("UPDATE sluice.slot_window SET used = used - 1, room = used - 1 < cap WHERE plan = $1 AND start = $2",
			plan, slot.Window.UnixMicro()))
	}
	for i := range entries {
		statements = append(statements, audit(c.Namespace, plan, &entries[i]))
	}
	return exec(tx, statements...)
}

// Claim takes slots that are due, one after the other.
func (s *Store) Claim(ctx context.Context, c schedule.Claiming) (claimed []schedule.Slot, err error) {
	// Without keeping writers waiting if there is none.
	next, err := s.Slots(ctx, schedule.Selection{Namespace: c.Namespace, Plan: c.Plan, Order: schedule.ByDue, Max: 1})
	if err != nil {
		return nil, err
	}
	if len(next) == 0 || next[0].Due.After(c.Now) {
		return nil, s.dispatched(ctx, &c)
	}
	err = s.DB.Update(ctx, func(tx sqldb.Tx) error {
		plan, err := planID(tx, c.Namespace, c.Plan)
		if err != nil {
			return err
		}
		if err := exec(tx, dispatched(plan)); err != nil {
			return err
		}
		claimed, err = sqldb.All(tx, Scan, slots+"s.plan = $1 AND NOT p.paused AND s.state < 2 AND s.due <= $2 ORDER BY s.due LIMIT $3",
			plan, c.Now.UnixMicro(), c.Max)
		for i := range claimed {
			if err != nil {
				return err
			}
			err = Apply(tx, plan, &claimed[i], &schedule.Change{
				Namespace: c.Namespace, Event: claimed[i].Event, Action: schedule.Claimed, Worker: c.Worker, Now: c.Now, Due: c.Until,
			})
		}
		return err
	})
	return claimed, err
}

// dispatched notes that workers claim slots of a plan, which is written once.
func (s *Store) dispatched(ctx context.Context, c *schedule.Claiming) error {
	var a schedule.ActivePlan
	err := s.DB.View(ctx, func(tx sqldb.Tx) (err error) {
		a, err = active(tx, c.Namespace, c.Plan)
		return err
	})
	if err != nil || a.Plan.Dispatched {
		return err
	}
	return s.DB.Update(ctx, func(tx sqldb.Tx) error { return exec(tx, dispatched(a.ID)) })
}

func dispatched(plan int64) sqldb.Statement {
	return sqldb.Do("UPDATE sluice.slot_plan SET dispatched = true WHERE id = $1 AND NOT dispatched", plan)
}

// Renew extends claims until a time.
func (s *Store) Renew(ctx context.Context, namespace string, claims []schedule.Claim, until time.Time) (lost []schedule.Claim, err error) {
	pairs := make([][2]any, len(claims))
	for i, c := range claims {
		pairs[i] = [2]any{c.Event, c.Fence}
	}
	list, err := json.Marshal(pairs)
	if err != nil {
		return nil, err
	}
	err = s.DB.Update(ctx, func(tx sqldb.Tx) error {
		kept := map[string]bool{}
		err := tx.Query(func(row sqldb.Row) error {
			var event string
			err := row.Scan(&event)
			kept[event] = true
			return err
		}, `UPDATE sluice.slot AS s SET due = greatest(s.due, $3) FROM json_array_elements($2::json) c
			WHERE s.namespace = $1 AND s.event = c.value->>0 AND s.fence = (c.value->>1)::bigint AND s.state = 1 RETURNING event`,
			namespace, string(list), until.UnixMicro())
		lost = nil
		for _, c := range claims {
			if !kept[c.Event] {
				lost = append(lost, c)
			}
		}
		return err
	})
	return lost, err
}
