package slotstore

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/internal/sqldb"
	"github.com/sluice-go/sluice/internal/sqlslots"
	"github.com/sluice-go/sluice/schedule"
)

// slotGroups are searches between the same windows: search i belongs to
// group of[i].
type slotGroups struct {
	froms, untils []int64
	counts        []int32
	of            []int
}

func groupSearches(searches []schedule.Search) slotGroups {
	g := slotGroups{of: make([]int, len(searches))}
	for i := range searches {
		q := &searches[i]
		n := len(g.froms) - 1
		if n < 0 || g.froms[n] != q.From || g.untils[n] != q.Until {
			g.froms, g.untils, g.counts = append(g.froms, q.From), append(g.untils, q.Until), append(g.counts, 0)
			n++
		}
		g.counts[n]++
		g.of[i] = n
	}
	return g
}

// grabbed are windows that this transaction has locked, and what there is to
// say about each group.
type grabbed struct {
	windows   []schedule.Window
	stops     []int64
	short     []bool
	firsts    []*int64
	contended []int64
}

// errSeenBefore undoes a batch some of whose events had slots.
var errSeenBefore = errors.New("events of the batch have slots already")

// Assign finds slots for events of one plan, in one transaction. If they are many
// it locks the windows, shares them out, and inserts all slots at once.
func (s *Store) Assign(ctx context.Context, searches []schedule.Search) ([]schedule.Found, error) {
	if len(searches) == 1 {
		found, err := s.assignOne(ctx, &searches[0])
		return []schedule.Found{found}, err
	}
	if len(searches) <= fewSlots {
		return s.assignFew(ctx, searches)
	}
	found, err := s.assignBatch(ctx, searches, nil)
	if !errors.Is(err, errSeenBefore) {
		return found, err
	}
	// Rarely: leave them out, lest windows be reserved for them.
	events := make([]string, len(searches))
	for i := range searches {
		events[i] = searches[i].Event
	}
	var old map[string]schedule.Slot
	err = s.db.View(ctx, func(tx sqldb.Tx) error {
		old, err = s.existing(tx, searches[0].Namespace, events)
		return err
	})
	if err != nil {
		return nil, err
	}
	var rest []schedule.Search
	for i := range searches {
		if _, ok := old[searches[i].Event]; !ok {
			rest = append(rest, searches[i])
		}
	}
	var others []schedule.Found
	if len(rest) > 0 {
		if others, err = s.assignBatch(ctx, rest, old); err != nil {
			return nil, err
		}
	}
	found = make([]schedule.Found, len(searches))
	for i := range searches {
		if slot, ok := old[searches[i].Event]; ok {
			found[i] = sqlslots.Existing(slot, &searches[i])
		} else {
			found[i], others = others[0], others[1:]
		}
	}
	return found, nil
}

// assignBatch assigns a batch. Unless it was looked beforehand which events
// have slots, it ends with errSeenBefore if one has.
func (s *Store) assignBatch(ctx context.Context, searches []schedule.Search, looked map[string]schedule.Slot) (found []schedule.Found, err error) {
	groups := groupSearches(searches)
	err = s.db.Update(ctx, func(tx sqldb.Tx) error {
		found = make([]schedule.Found, len(searches))
		got, err := s.grab(tx, &searches[0], &groups)
		if err != nil {
			return err
		}
		placed := schedule.Match(searches, got.windows, func(i int) int64 { return got.stops[groups.of[i]] })
		had, err := s.fill(tx, searches, placed, got.windows, found)
		if err != nil {
			return err
		}
		if len(had) > 0 && looked == nil {
			return errSeenBefore
		}
		if err := s.leftOver(tx, searches, placed, had, &groups, &got, found); err != nil {
			return err
		}
		if len(found[0].Contended) == 0 {
			found[0].Contended = got.contended
		}
		for i, first := range got.firsts {
			if first != nil {
				groups.first(found, i, *first)
			}
		}
		return nil
	})
	return found, err
}

// leftOver answers the searches that got no new slot: had are events that were
// found to have one.
func (s *Store) leftOver(tx sqldb.Tx, searches []schedule.Search, placed []int, had []string, groups *slotGroups, got *grabbed, found []schedule.Found) error {
	lost := map[string]bool{}
	for _, event := range had {
		lost[event] = true
	}
	look := had
	for i, w := range placed {
		if w < 0 {
			look = append(look, searches[i].Event)
		}
	}
	if len(look) == 0 {
		return nil
	}
	old, err := s.existing(tx, searches[0].Namespace, look)
	if err != nil {
		return err
	}
	answers := map[int]schedule.Found{} // of groups
	for i := range searches {
		q := &searches[i]
		if slot, ok := old[q.Event]; ok {
			found[i] = sqlslots.Existing(slot, q)
		} else if lost[q.Event] {
			found[i] = schedule.Found{Status: schedule.Again} // reclaimed meanwhile
		} else if placed[i] < 0 {
			group := groups.of[i]
			answer, ok := answers[group]
			if !ok {
				if answer, err = s.unplaced(tx, q, groups, group, got); err != nil {
					return err
				}
				answers[group] = answer
			}
			found[i] = answer
		}
	}
	return nil
}

// first notes a group's first window with room, with one of its members.
func (g *slotGroups) first(found []schedule.Found, group int, first int64) {
	i := 0
	for _, n := range g.counts[:group] {
		i += int(n)
	}
	found[i].First = first
}

func (s *Store) grab(tx sqldb.Tx, q *schedule.Search, groups *slotGroups) (grabbed, error) {
	var (
		fresh         bool
		starts, sizes []int64
		caps, useds   []int32
		opens         []*string
		got           grabbed
	)
	_, err := sqldb.One(tx, []any{&fresh, &starts, &sizes, &caps, &useds, &opens, &got.stops, &got.short, &got.firsts, &got.contended},
		grabSQL, s.db.Patience(), q.Plan, q.Version, max(q.Max, 1), groups.froms, groups.untils, groups.counts)
	if err != nil {
		return got, err
	}
	if !fresh {
		return got, schedule.ErrStale
	}
	got.windows = make([]schedule.Window, len(starts))
	for i := range starts {
		open, err := parseOpen(opens[i])
		if err != nil {
			return got, err
		}
		got.windows[i] = schedule.Window{Start: starts[i], Size: sizes[i], Max: int(caps[i]), Used: int(useds[i]), Open: open}
	}
	if len(got.contended) > schedule.MaxContended {
		got.contended = got.contended[:schedule.MaxContended]
	}
	return got, nil
}

// fill inserts the slots that were placed, counts them in their windows, and
// answers which events had slots before.
func (s *Store) fill(tx sqldb.Tx, searches []schedule.Search, placed []int, windows []schedule.Window, found []schedule.Found) ([]string, error) {
	n := len(searches)
	events, wins, ats, requested, payloads := make([]string, 0, n), make([]int64, 0, n), make([]int64, 0, n), make([]int64, 0, n), make([][]byte, 0, n)
	for i, w := range placed {
		if w < 0 {
			continue
		}
		q, window := &searches[i], &windows[w]
		at := window.Moment(q.Earliest, q.Jitter)
		found[i] = schedule.Found{Status: schedule.Assigned, Slot: sqlslots.New(q, window.Start, at)}
		events, wins, ats = append(events, q.Event), append(wins, window.Start), append(ats, at)
		requested, payloads = append(requested, q.Requested), append(payloads, sqlslots.Payload(q.Payload))
	}
	if len(events) == 0 {
		return nil, nil
	}
	q := &searches[0]
	return sqldb.All(tx, func(row sqldb.Row) (event string, err error) {
		err = row.Scan(&event)
		return event, err
	}, fillSQL, q.Plan, q.Version, q.Now, q.Namespace, events, wins, ats, requested, payloads)
}

// unplaced is the answer to a search for which no window was left.
func (s *Store) unplaced(tx sqldb.Tx, q *schedule.Search, groups *slotGroups, group int, got *grabbed) (schedule.Found, error) {
	stop := got.stops[group]
	switch {
	case stop == 0:
		return schedule.Found{Status: schedule.Unprepared, At: groups.froms[group]}, nil
	case !got.short[group]:
		return schedule.Found{Status: schedule.Again}, nil
	case stop < q.Until:
		return schedule.Found{Status: schedule.Unprepared, At: stop}, nil
	}
	found := schedule.Found{Status: schedule.Nothing, Contended: got.contended}
	_, err := sqldb.One(tx, []any{&found.Depth}, `SELECT count(*) FROM sluice.slot_window
		WHERE plan = $1 AND start >= $2 AND start < $3 AND cap > 0`, q.Plan, q.From, q.Until)
	return found, err
}
