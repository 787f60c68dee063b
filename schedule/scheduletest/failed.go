package scheduletest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

func failing(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 10})
	for _, event := range []string{"a", "b", "c", "d", "waits"} {
		b.assign(t, event, noon)
	}
	for _, event := range []string{"a", "b", "c", "d"} {
		b.end(t, event, errors.New("no"))
	}
	var events []string
	for after := (schedule.Position{}); ; {
		page, err := b.Failed(t.Context(), "p", after, 3)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Slots {
			events = append(events, page.Slots[i].Event)
		}
		if page.Next == nil {
			break
		}
		after = *page.Next
	}
	if slices.Sort(events); !slices.Equal(events, []string{"a", "b", "c", "d"}) {
		t.Errorf("%v have failed", events)
	}
	for range 2 { // again, after a lost answer
		slot, err := b.Requeue(t.Context(), "a", "mended")
		if err != nil || slot.State != schedule.Waiting || slot.Attempts != 0 {
			t.Errorf("%v: %+v", err, slot)
		}
		if slot, err = b.Cancel(t.Context(), "b", "given up"); err != nil || slot.State != schedule.Cancelled {
			t.Errorf("%v: %+v", err, slot)
		}
	}
	if _, err := b.Requeue(t.Context(), "b", ""); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("requeued though cancelled: %v", err)
	}
	if n, err := b.RequeueFailed(t.Context(), "p", ""); err != nil || n != 2 {
		t.Errorf("%v: %d requeued, want 2", err, n)
	}
	b.clock.Advance(5 * time.Second)
	if n := len(b.claim(t, "w", 10)); n != 4 {
		t.Errorf("%d claimed, want 4", n)
	}
	if _, err := b.Requeue(t.Context(), "a", ""); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("requeued though running: %v", err)
	}
	if got := b.actions(t, "a"); !slices.Equal(got, []schedule.Action{schedule.Confirmed, schedule.GaveUp, schedule.Requeued, schedule.Claimed}) {
		t.Errorf("audit %v", got)
	}
}

func requeuesLeaked(t *testing.T, b *bench) {
	b.plan(t, small())
	if _, err := b.Assign(t.Context(), schedule.Request{Event: "e", Plan: "p", Payload: []byte(`[1]`)}); err != nil {
		t.Fatal(err)
	}
	report, err := b.Reconcile(t.Context(), schedule.Reconciliation{
		Plan: "p", Age: time.Nanosecond, Started: func(context.Context, schedule.Slot) (bool, error) { return false, nil },
	})
	if b.clock.Advance(time.Second); err != nil || report.Reclaimed != 0 {
		t.Fatalf("%v: %+v, assigned at this moment", err, report)
	}
	report, err = b.Reconcile(t.Context(), schedule.Reconciliation{
		Plan: "p", Age: time.Nanosecond, Started: func(context.Context, schedule.Slot) (bool, error) { return false, nil },
	})
	if err != nil || report.Reclaimed != 1 {
		t.Fatalf("%v: %+v", err, report)
	}
	slot, err := b.Requeue(t.Context(), "e", "")
	if err != nil || slot.State != schedule.Waiting || string(slot.Payload) != `[1]` {
		t.Errorf("%v: %+v", err, slot)
	}
	expect(t, b.used(t), map[int]int{0: 1})
}
