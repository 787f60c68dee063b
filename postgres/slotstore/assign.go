package slotstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/internal/sqlslots"
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
	return s.db.Single(ctx, func(tx sqldb.Tx) error {
		var fresh bool
		_, err := sqldb.One(tx, []any{&fresh}, prepareSQL, s.db.Patience(), stretches[0].Plan, stretches[0].Version, froms, tos, starts, sizes, caps, opens)
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

// assignOne finds a slot for one event.
func (s *Store) assignOne(ctx context.Context, q *schedule.Search) (found schedule.Found, err error) {
	err = s.db.Single(ctx, func(tx sqldb.Tx) error {
		for {
			err := tx.Query(func(row sqldb.Row) error {
				found, err = scanFound(row, q)
				return err
			}, assignSQL, s.db.Patience(), q.Namespace, q.Event, q.Plan, q.Version, q.From, q.Until,
				q.Earliest, q.Jitter, q.Requested, q.Now, sqlslots.Payload(q.Payload))
			if err != nil || found.Status != schedule.Existed {
				return cmp.Or(err, stale(found))
			}
			slots, err := s.existing(tx, q.Namespace, []string{q.Event})
			if err != nil {
				return err
			}
			if slot, ok := slots[q.Event]; ok {
				found = sqlslots.Existing(slot, q)
				return nil
			}
			// It was reclaimed meanwhile.
		}
	})
	return found, err
}

// isStale is the status of a search under an old version of the plan.
const isStale schedule.FoundStatus = 255

func stale(found ...schedule.Found) error {
	if len(found) > 0 && found[0].Status == isStale {
		return schedule.ErrStale
	}
	return nil
}

func scanFound(row sqldb.Row, q *schedule.Search) (schedule.Found, error) {
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
	found.Status = schedule.FoundStatus(status) // -1 is isStale
	switch found.Status {
	case schedule.Assigned:
		found.First = *first
		found.Slot = sqlslots.New(q, *window, *at)
	case schedule.Unprepared:
		found.At = *unprepared
		if len(found.Contended) == 0 {
			found.First = found.At
		}
	case schedule.Nothing:
		found.Depth = *depth
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
		events[k], payloads[k], jitters[k] = q.Event, sqlslots.Payload(q.Payload), q.Jitter
		froms[k], untils[k], earliest[k], requested[k] = q.From, q.Until, q.Earliest, q.Requested
	}
	first := &searches[0]
	found := make([]schedule.Found, n)
	err := s.db.Single(ctx, func(tx sqldb.Tx) error {
		var had []string
		k := 0
		err := tx.Query(func(row sqldb.Row) (err error) {
			i := order[k]
			k++
			found[i], err = scanFound(row, &searches[i])
			if found[i].Status == schedule.Existed {
				had = append(had, searches[i].Event)
			}
			return err
		}, assignFewSQL, s.db.Patience(), first.Namespace, events, first.Plan, first.Version,
			froms, untils, earliest, jitters, requested, first.Now, payloads)
		if err := cmp.Or(err, stale(found...)); err != nil || len(had) == 0 {
			return err
		}
		old, err := s.existing(tx, first.Namespace, had)
		if err != nil {
			return err
		}
		for i := range found {
			if found[i].Status != schedule.Existed {
				continue
			}
			if slot, ok := old[searches[i].Event]; ok {
				found[i] = sqlslots.Existing(slot, &searches[i])
			} else {
				found[i] = schedule.Found{Status: schedule.Again} // reclaimed meanwhile
			}
		}
		return nil
	})
	return found, err
}

// existing are those of the events that have slots.
func (s *Store) existing(tx sqldb.Tx, namespace string, events []string) (map[string]schedule.Slot, error) {
	slots, err := sqldb.All(tx, sqlslots.Scan, slotSQL, namespace, events)
	byEvent := make(map[string]schedule.Slot, len(slots))
	for _, slot := range slots {
		byEvent[slot.Event] = slot
	}
	return byEvent, err
}
