package scheduletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

func raising(t *testing.T, b *bench) {
	b.plan(t, small())
	for i := range 5 {
		b.assign(t, fmt.Sprint("e", i), noon)
	}
	before, err := b.Slot(t.Context(), "e4")
	if err != nil {
		t.Fatal(err)
	}
	b.plan(t, schedule.Plan{MaxPerWindow: 5})
	b.assign(t, "more", noon)
	b.batch(t, requests(3, "batch", func(int) time.Time { return noon }))
	expect(t, b.used(t), map[int]int{0: 5, 4: 4})
	after, err := b.Slot(t.Context(), "e4")
	if err != nil || !after.Scheduled.Equal(before.Scheduled) || after.Version != 1 {
		t.Errorf("%v: what was scheduled is now %+v, was %+v", err, after, before)
	}
}

func lowering(t *testing.T, b *bench) {
	b.plan(t, small())
	for i := range 5 {
		b.assign(t, fmt.Sprint("e", i), noon)
	}
	b.plan(t, schedule.Plan{MaxPerWindow: 2})
	b.assign(t, "a", noon)
	b.batch(t, requests(2, "batch", func(int) time.Time { return noon }))
	expect(t, b.used(t), map[int]int{0: 3, 4: 2, 8: 2, 12: 1})
	// One leaves an over-full window; it is full still.
	if _, err := b.Cancel(t.Context(), "e0", ""); err != nil {
		t.Fatal(err)
	}
	b.assign(t, "b", noon)
	expect(t, b.used(t), map[int]int{0: 2, 4: 2, 8: 2, 12: 2})
}

func newWindowSize(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 8})
	b.assign(t, "a", noon.Add(time.Second))
	b.assign(t, "far", noon.Add(50*time.Second)) // in the window at 48
	p := b.plan(t, schedule.Plan{MaxPerWindow: 4, WindowSize: 10 * time.Second})
	if want := noon.Add(10 * time.Second); !p.Starts.Equal(want) {
		t.Errorf("the new size starts at %s, want %s", p.Starts, want)
	}
	// Around what is scheduled windows keep their size, at the new pace: 4 in
	// 10 s is 1 in 4 s. The window at 8 would reach into one of the new size.
	for i, want := range []int{4, 10, 10, 10, 10, 20} {
		if slot := b.assign(t, fmt.Sprint("e", i), noon); slot.Window != noon.Add(time.Duration(want)*time.Second) {
			t.Errorf("event %d is in window %s, want second %d", i, slot.Window, want)
		}
	}
	if slot := b.assign(t, "gap", noon.Add(49*time.Second)); slot.Window != noon.Add(52*time.Second) {
		t.Errorf("got %s, want second 52", slot.Window)
	}
	// The window at 56 is the last of its size.
	b.batch(t, requests(6, "batch", func(int) time.Time { return noon.Add(53 * time.Second) }))
	expect(t, b.used(t), map[int]int{0: 1, 4: 1, 10: 4, 20: 1, 48: 1, 52: 1, 56: 1, 60: 4, 70: 1})

	// 7 s windows begin where nothing is scheduled, and not across a boundary.
	p = b.plan(t, schedule.Plan{MaxPerWindow: 7, WindowSize: 7 * time.Second})
	if p.Starts.Unix()%7 != 0 {
		t.Errorf("the new size starts at %s", p.Starts)
	}
	for i := range 20 {
		b.assign(t, fmt.Sprint("seven", i), noon.Add(75*time.Second))
	}
	b.used(t) // checks that each is in its window
}

// newSizeBesideFarEvents has an event that is scheduled in three years, and a new
// size at whose pace windows of the old one would have no room.
func newSizeBesideFarEvents(t *testing.T, b *bench) {
	b.plan(t, small())
	b.assign(t, "far", noon.AddDate(3, 0, 0))
	b.assign(t, "near", noon)
	b.plan(t, schedule.Plan{MaxPerWindow: 1, WindowSize: time.Hour})
	for i, event := range []string{"a", "b"} {
		if slot, want := b.assign(t, event, noon), noon.Add(time.Duration(i+1)*time.Hour); slot.Window != want {
			t.Errorf("an event wanted now is in window %s, want %s", slot.Window, want)
		}
	}
	if slot := b.assign(t, "beside", noon.AddDate(3, 0, 0)); slot.Window != noon.AddDate(3, 0, 0).Add(time.Hour) {
		t.Errorf("got %s", slot.Window)
	}
	b.plan(t, small())
	if slot := b.assign(t, "back", noon); slot.Window != noon {
		t.Errorf("back to the first size: %s", slot.Window)
	}
	b.used(t)
}

func versions(t *testing.T, b *bench) {
	first := b.plan(t, small())
	if !first.Active || first.Version != 1 || first.WindowSize != 4*time.Second || first.Headroom != 200 {
		t.Errorf("got %+v", first)
	}
	calendar := &schedule.Calendar{Zone: "Europe/Madrid", Hours: map[string][]string{"monday": {"09:00-17:00"}}}
	second := b.plan(t, schedule.Plan{Version: 1, MaxPerWindow: 9, Calendar: calendar})
	if second.Version != 2 || second.Calendar.Zone != "Europe/Madrid" {
		t.Errorf("got %+v", second)
	}
	if _, err := b.SetPlan(t.Context(), schedule.Plan{Name: "p", Version: 1}); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("replacing a version that is not active: %v", err)
	}
	all, err := b.Versions(t.Context(), "p", 0)
	if err != nil || len(all) != 2 || !all[0].Active || all[1].Active || all[1].MaxPerWindow != 3 {
		t.Errorf("%v: versions %+v", err, all)
	}
	b.plan(t, schedule.Plan{Name: "a"})
	plans, err := b.Plans(t.Context(), "", 0)
	if err != nil || len(plans) != 2 || plans[0].Name != "a" || plans[1].Version != 2 {
		t.Errorf("%v: plans %+v", err, plans)
	}
	if _, err := b.Plan(t.Context(), "nope"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("no such plan: %v", err)
	}
	if _, err := b.Versions(t.Context(), "nope", 0); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("versions of no such plan: %v", err)
	}
	entries, err := b.Audit(t.Context(), schedule.AuditQuery{Plan: "p"})
	if err != nil || len(entries) != 2 || entries[0].Action != schedule.Changed {
		t.Errorf("%v: audit %+v", err, entries)
	}
}

// staleNodes changes a plan under the eyes of a node that has it in its cache.
func staleNodes(t *testing.T, b *bench) {
	b.plan(t, small())
	other := b.node(t, b.Open(), "")
	if _, err := other.Assign(t.Context(), schedule.Request{Event: "warm", Plan: "p"}); err != nil {
		t.Fatal(err)
	}
	b.plan(t, schedule.Plan{MaxPerWindow: 1, WindowSize: 2 * time.Second})
	slot, err := other.Assign(t.Context(), schedule.Request{Event: "e", Plan: "p", At: noon.Add(time.Minute)})
	if err != nil || slot.Version != 2 {
		t.Errorf("%v: assigned by %+v, want version 2", err, slot)
	}
	results, err := other.AssignBatch(t.Context(), requests(2, "batch", func(int) time.Time { return noon.Add(time.Minute) }))
	if err != nil || results[0].Slot.Version != 2 {
		t.Errorf("%v: assigned by %+v, want version 2", err, results)
	}
	expect(t, b.used(t), map[int]int{0: 1, 60: 1, 62: 1, 64: 1})
}

func flushReachesOthers(t *testing.T, b *bench) {
	b.plan(t, small())
	other := b.node(t, b.Open(), "")
	if _, err := other.Load(t.Context(), "p", noon, time.Second, 1); err != nil {
		t.Fatal(err)
	}
	// Watching begins in the background, so it is flushed until it is heard.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for misses := other.Stats().Snapshot().CacheMisses; other.Stats().Snapshot().CacheMisses == misses; {
		if err := b.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
		if _, err := other.Load(ctx, "p", noon, time.Second, 1); err != nil {
			t.Fatal(err)
		}
	}
}

func closedTimes(t *testing.T, b *bench) {
	// Noon in UTC is 13:00 in Madrid, in winter.
	b.plan(t, schedule.Plan{MaxPerWindow: 2, WindowSize: time.Minute, Headroom: 3, Calendar: &schedule.Calendar{
		Zone:      "Europe/Madrid",
		Hours:     map[string][]string{"monday": {"09:00-14:01"}, "wednesday": {"10:00-11:00"}},
		Holidays:  []string{"2026-03-04"},
		Blackouts: []schedule.Blackout{{From: noon.Add(7 * 24 * time.Hour), To: noon.Add(7*24*time.Hour + 30*time.Second)}},
	}})
	at := noon.Add(time.Hour)
	b.batch(t, requests(4, "e", func(int) time.Time { return at }))
	// 9:00 on the Monday after; the holiday is passed over.
	b.assign(t, "holiday", noon.Add(36*time.Hour))
	monday := 7*24*3600 - 4*3600
	expect(t, b.used(t), map[int]int{3600: 2, monday: 3 - 1, monday + 60: 1})
	// Half of this minute is blacked out.
	slot := b.assign(t, "half", noon.Add(7*24*time.Hour))
	if s := slot.Scheduled.Sub(noon.Add(7 * 24 * time.Hour)); s < 30*time.Second || s >= time.Minute {
		t.Errorf("scheduled %s after the minute began, of which the first half is blacked out", s)
	}
}

func calendarChanged(t *testing.T, b *bench) {
	b.plan(t, small())
	for i := range 4 {
		b.assign(t, fmt.Sprint("e", i), noon)
	}
	b.plan(t, schedule.Plan{MaxPerWindow: 3, Calendar: &schedule.Calendar{
		Blackouts: []schedule.Blackout{{From: noon.Add(4 * time.Second), To: noon.Add(12 * time.Second)}},
	}})
	b.assign(t, "a", noon)
	// Room that is given back in closed time stays closed.
	if _, err := b.Cancel(t.Context(), "e3", ""); err != nil {
		t.Fatal(err)
	}
	b.assign(t, "b", noon)
	expect(t, b.used(t), map[int]int{0: 3, 12: 2})
	b.plan(t, small())
	b.assign(t, "c", noon)
	expect(t, b.used(t), map[int]int{0: 3, 4: 1, 12: 2})
}

func namespacesListed(t *testing.T, b *bench) {
	b.plan(t, small())
	for _, name := range []string{"c", "a", "b"} {
		other, err := b.In(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, plan := range []string{"p", "q"} {
			if _, err := other.SetPlan(t.Context(), schedule.Plan{Name: plan}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for after, want := range map[string][]string{"": {"a", "b"}, "b": {"c"}, "c": nil} {
		if got, err := b.store.Namespaces(t.Context(), after, 2); err != nil || !slices.Equal(got, want) {
			t.Errorf("after %q: %v: %q, want %q", after, err, got, want)
		}
	}
	if _, err := b.In(strings.Repeat("x", 256)); err == nil {
		t.Error("a name that is too long is taken")
	}
}
