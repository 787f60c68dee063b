package slotstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/schedule"
)

// Prepare creates the windows of stretches of time.
func (s *Store) Prepare(ctx context.Context, stretches []schedule.Stretch) error {
	var starts, sizes, froms, tos []int64
	var caps []int32
	var opens []*string
	for i := range stretches {
		st := &stretches[i]
		froms, tos = append(froms, st.From), append(tos, st.To)
		for j := range st.Windows {
			w := &st.Windows[j]
			starts, sizes, caps, opens = append(starts, w.Start), append(sizes, w.Size), append(caps, int32(w.Max)), append(opens, formatOpen(w.Open))
		}
	}
	return s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var fresh bool
		err := conn.QueryRow(ctx, s.sql.prepare, s.db.Patience(), stretches[0].Plan, stretches[0].Version, froms, tos, starts, sizes, caps, opens).Scan(&fresh)
		if err == nil && !fresh {
			err = schedule.ErrStale
		}
		return err
	})
}

// formatOpen writes times as PostgreSQL writes an array: arrays of arrays of
// different lengths do not exist there.
func formatOpen(open []int64) *string {
	if open == nil {
		return nil
	}
	parts := make([]string, len(open))
	for i, t := range open {
		parts[i] = strconv.FormatInt(t, 10)
	}
	text := "{" + strings.Join(parts, ",") + "}"
	return &text
}

func parseOpen(text *string) ([]int64, error) {
	if text == nil {
		return nil, nil
	}
	var open []int64
	for part := range strings.SplitSeq(strings.Trim(*text, "{}"), ",") {
		t, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("open times %q: %w", *text, err)
		}
		open = append(open, t)
	}
	return open, nil
}

// Assign finds a slot for one event.
func (s *Store) Assign(ctx context.Context, q *schedule.Search) (found schedule.Found, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		for {
			found, err = s.assignOnce(ctx, conn, q)
			if err != nil || found.Status != schedule.Existed {
				return err
			}
			slots, err := s.existing(ctx, conn, q.Namespace, []string{q.Event})
			if err != nil {
				return err
			}
			if slot, ok := slots[q.Event]; ok {
				found = existingSlot(slot, q)
				return nil
			}
			// It was reclaimed meanwhile.
		}
	})
	return found, err
}

func (s *Store) assignOnce(ctx context.Context, conn *pgx.Conn, q *schedule.Search) (schedule.Found, error) {
	return scanFound(conn.QueryRow(ctx, s.sql.assign, s.db.Patience(), q.Namespace, q.Event, q.Plan, q.Version, q.From, q.Until,
		q.Earliest, q.Jitter, q.Requested, q.Now, slotPayload(q.Payload)), q)
}

func scanFound(row pgx.Row, q *schedule.Search) (schedule.Found, error) {
	var (
		status                        int
		window, at, unprepared, first *int64
		frontier                      *int64
		depth                         *int
		found                         schedule.Found
	)
	if err := row.Scan(&status, &window, &at, &unprepared, &first, &found.Contended, &depth, &frontier); err != nil {
		return found, err
	}
	if status < 0 {
		return found, schedule.ErrStale
	}
	found.Status = schedule.FoundStatus(status)
	switch found.Status {
	case schedule.Assigned:
		found.First = *first
		found.Slot = newSlot(q, *window, *at)
	case schedule.Unprepared:
		found.At = *unprepared
		if len(found.Contended) == 0 {
			found.First = found.At
		}
	case schedule.Nothing:
		found.Depth, found.Frontier = *depth, *frontier
	}
	return found, nil
}

// fewSlots is up to how many events are assigned one after the other, in one call:
// below it that is faster than doing all of them at once in several.
const fewSlots = 16

// assignFew assigns few events in one call.
func (s *Store) assignFew(ctx context.Context, searches []schedule.Search) ([]schedule.Found, error) {
	n := len(searches)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return strings.Compare(searches[i].Event, searches[j].Event) })
	events, payloads, jitters := make([]string, n), make([][]byte, n), make([]float64, n)
	froms, untils, earliest, requested := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	for k, i := range order {
		q := &searches[i]
		events[k], payloads[k], jitters[k] = q.Event, slotPayload(q.Payload), q.Jitter
		froms[k], untils[k], earliest[k], requested[k] = q.From, q.Until, q.Earliest, q.Requested
	}
	first := &searches[0]
	found := make([]schedule.Found, n)
	err := s.run(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, s.sql.assignFew, s.db.Patience(), first.Namespace, events, first.Plan, first.Version,
			froms, untils, earliest, jitters, requested, first.Now, payloads)
		if err != nil {
			return err
		}
		defer rows.Close()
		var had []string
		for k := 0; rows.Next(); k++ {
			i := order[k]
			if found[i], err = scanFound(rows, &searches[i]); err != nil {
				return err
			}
			if found[i].Status == schedule.Existed {
				had = append(had, searches[i].Event)
			}
		}
		if err := rows.Err(); err != nil || len(had) == 0 {
			return err
		}
		old, err := s.existing(ctx, conn, first.Namespace, had)
		if err != nil {
			return err
		}
		for i := range found {
			if found[i].Status != schedule.Existed {
				continue
			}
			if slot, ok := old[searches[i].Event]; ok {
				found[i] = existingSlot(slot, &searches[i])
			} else {
				found[i] = schedule.Found{Status: schedule.Again} // reclaimed meanwhile
			}
		}
		return nil
	})
	return found, err
}

func newSlot(q *schedule.Search, window, at int64) schedule.Slot {
	return schedule.Slot{
		Event: q.Event, Plan: q.PlanName, Version: q.Version, Window: fromMicros(window), Scheduled: fromMicros(at),
		Requested: fromMicros(q.Requested), Created: fromMicros(q.Now), Due: fromMicros(at), Payload: q.Payload,
	}
}

func existingSlot(slot schedule.Slot, q *schedule.Search) schedule.Found {
	slot.Existing = true
	if slot.Plan != q.PlanName {
		return schedule.Found{Status: schedule.Elsewhere, Slot: slot}
	}
	return schedule.Found{Status: schedule.Existed, Slot: slot}
}

func slotPayload(p json.RawMessage) []byte {
	if len(p) == 0 {
		return nil
	}
	return p
}

// existing are those of the events that have slots.
func (s *Store) existing(ctx context.Context, q interface {
	Query(context.Context, string, ...any) (pgx.Rows, error)
}, namespace string, events []string) (map[string]schedule.Slot, error) {
	rows, err := q.Query(ctx, s.sql.slot, namespace, events)
	if err != nil {
		return nil, err
	}
	slots, err := pgx.CollectRows(rows, scanStoredSlot)
	if err != nil {
		return nil, err
	}
	byEvent := make(map[string]schedule.Slot, len(slots))
	for _, slot := range slots {
		byEvent[slot.Event] = slot
	}
	return byEvent, nil
}
