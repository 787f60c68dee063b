package scheduletest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

// filled is a scheduler of a namespace with a plan that has three versions and
// events in every state.
func (b *bench) filled(t *testing.T, namespace string) *schedule.Scheduler {
	t.Helper()
	s := b.node(t, b.store, namespace)
	for i := range 3 {
		if _, err := s.SetPlan(t.Context(), schedule.Plan{Name: "p", MaxPerWindow: 3 + i}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		if _, err := s.Assign(t.Context(), schedule.Request{Event: fmt.Sprint("e", i), Plan: "p", At: noon}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Cancel(t.Context(), "e1", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Confirm(t.Context(), "e2", "owner"); err != nil {
		t.Fatal(err)
	}
	return s
}

// nothing checks that a namespace has nothing, by every way to look.
func (b *bench) nothing(t *testing.T, namespace string) {
	t.Helper()
	s := b.node(t, b.Open(), namespace)
	if plans, err := s.Plans(t.Context(), "", 100); err != nil || len(plans) != 0 {
		t.Errorf("%v: plans %+v", err, plans)
	}
	if versions, err := b.store.Plans(t.Context(), schedule.PlanQuery{Namespace: namespace, Name: "p", Versions: true, Max: 100}); len(versions) != 0 {
		t.Errorf("%v: versions %+v", err, versions)
	}
	for i := range 20 {
		if slot, err := s.Slot(t.Context(), fmt.Sprint("e", i)); !errors.Is(err, schedule.ErrNotFound) {
			t.Errorf("%v: %+v", err, slot)
		}
		if entries, err := s.Audit(t.Context(), schedule.AuditQuery{Event: fmt.Sprint("e", i)}); err != nil || len(entries) != 0 {
			t.Errorf("%v: entries %+v", err, entries)
		}
	}
	if erased, err := b.store.Sweep(t.Context(), eraseOf(namespace, 1)); err != nil || erased != (schedule.Swept{}) {
		t.Errorf("%v: there was still %+v", err, erased)
	}
}

// eraseOf is a step of erasing a namespace.
func eraseOf(namespace string, max int) schedule.Sweeping {
	return schedule.Sweeping{Namespace: namespace, Target: schedule.SweepAll, Max: max}
}

func erasing(t *testing.T, b *bench) {
	own, tenant, other := b.filled(t, ""), b.filled(t, "tenant"), b.filled(t, "tenant2")
	if _, err := tenant.SetPlan(t.Context(), schedule.Plan{Name: "empty", MaxPerWindow: 1}); err != nil {
		t.Fatal(err)
	}
	before := Count(t, b.store, other, "tenant2", "p")
	known := b.active(t, "tenant", "p")

	// One small step, and it can be used no more.
	if erased, err := b.store.Sweep(t.Context(), eraseOf("tenant", 1)); err != nil || !erased.More {
		t.Fatalf("%v: %+v", err, erased)
	}
	if _, err := tenant.Plan(t.Context(), "empty"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("a plan that is being erased: %v", err)
	}
	if n, err := own.Erase(t.Context(), "tenant"); err != nil || n != 20 {
		t.Errorf("%v: %d events erased, want 20", err, n)
	}
	b.nothing(t, "tenant")
	if _, err := tenant.Assign(t.Context(), schedule.Request{Event: "new", Plan: "p", At: noon}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("an event in a plan that is gone: %v", err)
	}
	// A node that has not heard of it yet asks by the number that the plan had.
	search := schedule.Search{
		Namespace: "tenant", Event: "new", Plan: known.ID, PlanName: "p", Version: known.Plan.Version, Max: 5,
		From: noon.UnixMicro(), Until: noon.Add(time.Hour).UnixMicro(), Now: noon.UnixMicro(),
	}
	if found, err := b.store.Assign(t.Context(), []schedule.Search{search}); !errors.Is(err, schedule.ErrStale) {
		t.Errorf("an event for the number of a plan that is gone: %v, %+v", err, found)
	}
	stretch := schedule.Stretch{Plan: known.ID, Version: known.Plan.Version, From: search.From, To: search.Until}
	if err := b.store.Prepare(t.Context(), []schedule.Stretch{stretch}); !errors.Is(err, schedule.ErrStale) {
		t.Errorf("windows for the number of a plan that is gone: %v", err)
	}
	expect(t, Count(t, b.store, other, "tenant2", "p"), before)
	expect(t, Count(t, b.store, own, "", "p"), before)
	if entries, err := other.Audit(t.Context(), schedule.AuditQuery{Event: "e1"}); err != nil || len(entries) == 0 {
		t.Errorf("%v: the audit log of others is %+v", err, entries)
	}

	// Made anew, it begins at the beginning.
	if p, err := tenant.SetPlan(t.Context(), small()); err != nil || p.Version != 1 || p.Paused {
		t.Errorf("%v: %+v", err, p)
	}
	if slot, err := tenant.Assign(t.Context(), schedule.Request{Event: "e1", Plan: "p", At: noon}); err != nil || slot.Existing {
		t.Errorf("%v: %+v", err, slot)
	}
}

func erasingBusy(t *testing.T, b *bench) {
	tenant, other := b.filled(t, "tenant"), b.filled(t, "other")
	ctx := context.Background()
	known := func(err error) bool {
		for _, e := range []error{schedule.ErrNotFound, schedule.ErrStale, schedule.ErrClaimLost, schedule.ErrConflict} {
			if errors.Is(err, e) {
				return true
			}
		}
		return err == nil
	}
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range 40 {
				r := schedule.Request{Event: fmt.Sprint("new", w, " ", i), Plan: "p", At: noon}
				if _, err := tenant.Assign(ctx, r); !known(err) {
					t.Errorf("assigning while it is erased: %v", err)
				}
				if _, err := other.Assign(ctx, r); err != nil {
					t.Errorf("assigning to another: %v", err)
				}
			}
		})
	}
	wg.Go(func() {
		for range 40 {
			slots, err := b.store.Claim(ctx, schedule.Claiming{Namespace: "tenant", Plan: "p", Worker: "w", Now: noon.Add(time.Hour), Until: noon.Add(2 * time.Hour), Max: 3})
			if !known(err) {
				t.Errorf("claiming while it is erased: %v", err)
			}
			for _, slot := range slots {
				_, err := b.store.Change(ctx, schedule.Change{Namespace: "tenant", Event: slot.Event, Fence: slot.Fence, Action: schedule.Finished, Now: noon.Add(time.Hour)})
				if !known(err) {
					t.Errorf("finishing while it is erased: %v", err)
				}
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for {
				erased, err := b.store.Sweep(ctx, eraseOf("tenant", 7))
				if err != nil {
					t.Errorf("erasing: %v", err)
				}
				if err != nil || !erased.More {
					return
				}
			}
		})
	}
	wg.Wait()
	b.nothing(t, "tenant")
	total := 0
	for _, n := range Count(t, b.store, other, "other", "p") {
		total += n
	}
	if total != 19+3*40 {
		t.Errorf("another has %d events, want %d", total, 19+3*40)
	}
}
