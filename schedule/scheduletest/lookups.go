package scheduletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

func lookups(t *testing.T, b *bench) {
	b.plan(t, small())
	for i := range 7 {
		b.assign(t, fmt.Sprint("e", i), noon)
	}
	page, err := b.WindowOf(t.Context(), "p", noon.Add(5*time.Second), schedule.Position{}, 2)
	if err != nil || len(page.Slots) != 2 || page.Next == nil {
		t.Fatalf("%v: %+v", err, page)
	}
	rest, err := b.WindowOf(t.Context(), "p", noon.Add(5*time.Second), *page.Next, 2)
	if err != nil || len(rest.Slots) != 1 || rest.Next != nil {
		t.Fatalf("%v: %+v", err, rest)
	}
	if _, err := b.Slots(t.Context(), schedule.SlotQuery{Plan: "nope", From: noon, To: noon.Add(1)}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("no such plan: %v", err)
	}
	if _, err := b.Slot(t.Context(), "nope"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("no such event: %v", err)
	}
	load, err := b.Load(t.Context(), "p", noon, 8*time.Second, 3)
	if err != nil {
		t.Fatal(err)
	}
	got := []int{}
	for _, bar := range load.Bars {
		got = append(got, bar.Events, bar.Capacity)
	}
	if !slices.Equal(got, []int{6, 6, 1, 6, 0, 6}) {
		t.Errorf("events and capacities are %v", got)
	}
}

func namespaces(t *testing.T, b *bench) {
	b.plan(t, small())
	tenant := b.node(t, b.store, "tenant")
	if _, err := tenant.Assign(t.Context(), schedule.Request{Event: "e", Plan: "p"}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("another tenant's plan: %v", err)
	}
	if _, err := tenant.SetPlan(t.Context(), small()); err != nil {
		t.Fatal(err)
	}
	b.assign(t, "e", noon)
	slot, err := tenant.Assign(t.Context(), schedule.Request{Event: "e", Plan: "p"})
	if err != nil || slot.Existing {
		t.Errorf("%v: another tenant's event: %+v", err, slot)
	}
	expect(t, b.used(t), map[int]int{0: 1})
	expect(t, Count(t, b.store, tenant, "tenant", "p"), map[int]int{0: 1})
}

func reconciling(t *testing.T, b *bench) {
	b.plan(t, small())
	if _, err := b.Assign(t.Context(), schedule.Request{Event: "leaked", Plan: "p", At: noon.Add(time.Hour), Payload: []byte(`[1]`)}); err != nil {
		t.Fatal(err)
	}
	for _, e := range []string{"known", "confirmed", "ran"} {
		b.assign(t, e, noon.Add(time.Hour))
	}
	b.assign(t, "soon", noon)
	if _, err := b.Confirm(t.Context(), "confirmed", "owner"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Confirm(t.Context(), "soon", "owner"); err != nil {
		t.Fatal(err)
	}
	b.clock.Advance(11 * time.Minute)
	b.assign(t, "young", noon.Add(time.Hour))
	before := b.used(t)

	var asked []string
	ask := func(_ context.Context, s schedule.Slot) (bool, error) {
		asked = append(asked, s.Event)
		switch s.Event {
		case "known":
			return true, nil
		case "ran": // it starts just now
			_, err := b.Confirm(context.Background(), "ran", "owner")
			return false, err
		}
		return false, nil
	}
	report, err := b.Reconcile(t.Context(), schedule.Reconciliation{Plan: "p", Started: ask, DryRun: true})
	if err != nil || len(report.Leaked) != 1 && len(report.Leaked) != 2 {
		t.Fatalf("%v: dry run %+v", err, report)
	}
	expect(t, b.used(t), before)
	if _, err := b.Slot(t.Context(), "leaked"); err != nil {
		t.Errorf("a dry run took a slot: %v", err)
	}
	slices.Sort(asked)
	if !slices.Equal(asked, []string{"known", "leaked", "ran"}) {
		t.Errorf("asked about %v", asked)
	}
	report, err = b.Reconcile(t.Context(), schedule.Reconciliation{Plan: "p", Started: ask})
	if err != nil || len(report.Leaked) != 1 || report.Leaked[0].Event != "leaked" || report.Reclaimed != 1 {
		t.Fatalf("%v: %+v", err, report)
	}
	if slot, err := b.Slot(t.Context(), "leaked"); err != nil || slot.State != schedule.Leaked || string(slot.Payload) != `[1]` {
		t.Errorf("%v: reclaimed, and %+v", err, slot)
	}
	if got := b.actions(t, "leaked"); !slices.Equal(got, []schedule.Action{schedule.Reclaimed}) {
		t.Errorf("audit %v", got)
	}
	for _, e := range []string{"known", "confirmed", "ran", "soon"} {
		if slot, err := b.Slot(t.Context(), e); err != nil || slot.State != schedule.Running {
			t.Errorf("%s: %v, %+v", e, err, slot)
		}
	}
	b.assign(t, "new", noon.Add(time.Hour)) // gets the room
	expect(t, b.used(t), map[int]int{0: 1, 3600: 3, 3604: 2})
	if again := b.assign(t, "leaked", noon.Add(time.Hour)); again.Existing {
		t.Error("a reclaimed event cannot be assigned again")
	}
	if results := b.batch(t, []schedule.Request{{Event: "leaked", Plan: "p"}}); !results[0].Slot.Existing {
		t.Errorf("assigned a third time: %+v", results)
	}
	expect(t, b.used(t), map[int]int{0: 1, 3600: 3, 3604: 3})
	if got := b.actions(t, "leaked"); !slices.Equal(got, []schedule.Action{schedule.Reclaimed, schedule.Purged}) {
		t.Errorf("audit %v", got)
	}
	if _, err := b.Reconcile(t.Context(), schedule.Reconciliation{Plan: "p"}); err == nil {
		t.Error("reclaimed without asking anybody")
	}
}

// waitingIsNotLeaked tries to reclaim what waits in plans that are paused, and
// in those whose slots workers claim.
func waitingIsNotLeaked(t *testing.T, b *bench) {
	b.plan(t, small())
	b.batch(t, requests(6, "e", func(int) time.Time { return noon }))
	b.clock.Advance(time.Hour)
	before := b.used(t)
	refused := func(why string, of schedule.Store) {
		t.Helper()
		for _, dry := range []bool{true, false} {
			_, err := b.Reconcile(t.Context(), schedule.Reconciliation{
				Plan: "p", Overdue: true, DryRun: dry,
				Started: func(context.Context, schedule.Slot) (bool, error) { return false, nil },
			})
			if !errors.Is(err, schedule.ErrConflict) {
				t.Errorf("%s: %v", why, err)
			}
		}
		// Whoever looked before is refused, too.
		_, err := of.Change(t.Context(), schedule.Change{Event: "e1", Action: schedule.Reclaimed, Now: b.clock.Now()})
		if !errors.Is(err, schedule.ErrConflict) {
			t.Errorf("%s: %v", why, err)
		}
		expect(t, b.used(t), before)
	}
	if err := b.Pause(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	refused("paused", b.store)
	if err := b.Resume(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if plan := b.active(t, "", "p").Plan; plan.Dispatched {
		t.Errorf("%+v: nobody has claimed anything", plan)
	}
	if n := len(b.claim(t, "w", 1)); n != 1 {
		t.Fatalf("%d claimed", n)
	}
	refused("a dispatcher's backlog", b.store)

	b.plan(t, schedule.Plan{Name: "idle"})
	if _, err := b.store.Claim(t.Context(), schedule.Claiming{Plan: "idle", Worker: "w", Now: b.clock.Now(), Until: b.clock.Now().Add(time.Second), Max: 1}); err != nil {
		t.Fatal(err)
	}
	if plan := b.active(t, "", "idle").Plan; !plan.Dispatched {
		t.Errorf("%+v: a worker waits for its first slot", plan)
	}
}
