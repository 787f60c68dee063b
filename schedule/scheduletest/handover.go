package scheduletest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

func handingOver(t *testing.T, b *bench) {
	b.plan(t, small())
	for _, event := range []string{"e", "f", "g", "other"} {
		b.assign(t, event, noon)
	}
	before := b.used(t)
	for range 2 {
		slot, err := b.HandOver(t.Context(), "e", "temporal")
		if err != nil || slot.State != schedule.Done || slot.Worker != "temporal" || slot.Fence != 0 {
			t.Fatalf("%v: %+v", err, slot)
		}
	}
	expect(t, b.used(t), before)
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, schedule.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := b.HandOver(t.Context(), "e", "another")
	refused("handed over to two", err)
	_, err = b.Cancel(t.Context(), "e", "")
	refused("cancelled by somebody who cannot know that it will not run", err)
	_, err = b.TakeBack(t.Context(), "e", "another", "")
	refused("taken back by another", err)
	report, err := b.Reconcile(t.Context(), schedule.Reconciliation{Plan: "p", Age: time.Nanosecond, DryRun: true})
	if err != nil || slices.ContainsFunc(report.Leaked, func(s schedule.Slot) bool { return s.Event == "e" }) {
		t.Errorf("%v: %+v is leaked", err, report)
	}

	for range 2 { // what was handed over, and what was not yet
		for _, event := range []string{"e", "f"} {
			if slot, err := b.TakeBack(t.Context(), event, "temporal", "not wanted"); err != nil || slot.State != schedule.Cancelled {
				t.Errorf("%v: %+v", err, slot)
			}
		}
	}
	expect(t, b.used(t), map[int]int{0: before[0] - 2, 4: before[4]})
	_, err = b.HandOver(t.Context(), "e", "temporal")
	refused("handed over though cancelled", err)
	if got := b.actions(t, "e"); !slices.Equal(got, []schedule.Action{schedule.HandedOver, schedule.Withdrawn}) {
		t.Errorf("audit %v", got)
	}

	b.clock.Advance(time.Minute)
	for _, slot := range b.claim(t, "w", 10) {
		_, err := b.HandOver(t.Context(), slot.Event, "w")
		refused("handed over though claimed", err)
		if err := b.Complete(t.Context(), slot.Event, slot.Fence, nil); err != nil {
			t.Error(err)
		}
		_, err = b.TakeBack(t.Context(), slot.Event, "w", "")
		refused("taken back though it ran", err)
	}
}
