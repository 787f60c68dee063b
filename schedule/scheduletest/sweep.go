package scheduletest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/schedule"
)

const day = 24 * time.Hour

// end has an event's owner start and finish it now.
func (b *bench) end(t *testing.T, event string, failure error) {
	t.Helper()
	slot, err := b.Confirm(t.Context(), event, "owner")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Complete(t.Context(), event, slot.Fence, failure); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) cancel(t *testing.T, event string) {
	t.Helper()
	if _, err := b.Cancel(t.Context(), event, ""); err != nil {
		t.Fatal(err)
	}
}

// sweep sweeps, and checks what that removed. Of windows it may be more: those
// that were prepared and never used.
func (b *bench) sweep(t *testing.T, want schedule.Removed) {
	t.Helper()
	before := b.Stats().Snapshot().Swept
	got, err := b.Sweep(t.Context())
	if err != nil || got.Slots != want.Slots || got.Audit != want.Audit || got.Windows < want.Windows || (got.Windows > 0) != (want.Windows > 0) {
		t.Errorf("%v: %+v removed, want %+v", err, got, want)
	}
	after := b.Stats().Snapshot().Swept
	counted := schedule.Removed{Slots: after.Slots - before.Slots, Windows: after.Windows - before.Windows, Audit: after.Audit - before.Audit}
	if counted != got {
		t.Errorf("%+v counted, %+v removed", counted, got)
	}
}

func (b *bench) kept(t *testing.T, events ...string) {
	t.Helper()
	for _, event := range events {
		if _, err := b.Slot(t.Context(), event); err != nil {
			t.Errorf("%s: %v", event, err)
		}
	}
}

func (b *bench) gone(t *testing.T, events ...string) {
	t.Helper()
	for _, event := range events {
		if slot, err := b.Slot(t.Context(), event); !errors.Is(err, schedule.ErrNotFound) {
			t.Errorf("%v: %+v is still there", err, slot)
		}
	}
}

func sweeping(t *testing.T, b *bench) {
	b.plan(t, small())
	for i, event := range []string{"done", "failed", "cancelled", "waiting", "running", "late", "reclaimed"} {
		b.assign(t, event, noon.Add(time.Duration(4*i)*time.Second)) // each in a window of its own
	}
	for _, event := range []string{"early", "withdrawn", "ahead"} {
		b.assign(t, event, noon.Add(10*day))
	}
	b.end(t, "done", nil)
	b.end(t, "failed", errors.New("no"))
	b.cancel(t, "cancelled")
	if _, err := b.Confirm(t.Context(), "running", "owner"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Change(t.Context(), schedule.Change{Event: "reclaimed", Action: schedule.Reclaimed, Now: noon}); err != nil {
		t.Fatal(err)
	}
	b.end(t, "early", nil)
	b.cancel(t, "withdrawn")

	b.clock.Advance(6 * day)
	b.end(t, "late", nil)
	b.clock.Advance(day)
	b.sweep(t, schedule.Removed{}) // all windows ended less than 7 days ago
	if slot := b.assign(t, "cancelled", noon); !slot.Existing || slot.State != schedule.Cancelled {
		t.Errorf("%+v is not the slot that it had", slot)
	}
	b.clock.Advance(time.Minute)
	b.sweep(t, schedule.Removed{Slots: 4, Windows: 4})
	b.gone(t, "done", "failed", "cancelled", "reclaimed")
	b.kept(t, "waiting", "running", "late", "early", "withdrawn", "ahead")
	expect(t, b.used(t), map[int]int{12: 1, 16: 1, 20: 1, 864000: 2})
	if again, err := b.Sweep(t.Context()); err != nil || again != (schedule.Removed{}) {
		t.Errorf("%v: %+v removed the second time", err, again)
	}
	if len(b.actions(t, "done")) != 2 {
		t.Error("the audit log went with the slot")
	}
	// The event is new now.
	if slot := b.assign(t, "done", noon); slot.Existing || slot.State != schedule.Waiting {
		t.Errorf("%+v is not new", slot)
	}
	b.clock.Advance(6 * day)
	b.sweep(t, schedule.Removed{Slots: 1, Windows: 1}) // late
	b.gone(t, "late")

	// What never finished keeps its window, and only that.
	b.cancel(t, "ahead")
	b.clock.Advance(1000 * day)
	b.end(t, "waiting", nil)
	if _, err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.gone(t, "early", "withdrawn", "ahead")
	b.kept(t, "waiting", "running", "done")
	b.cancel(t, "done")
	b.clock.Advance(8 * day)
	if _, err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(t, b.used(t), map[int]int{16: 1})
	for _, r := range []schedule.Retention{{Slots: time.Minute}, {Audit: time.Minute}, {Slots: -1}} {
		_, err := schedule.New(schedule.Config{Store: b.store, Retention: r})
		var field *sluice.FieldError
		if !errors.As(err, &field) {
			t.Errorf("%+v: %v, want a field error", r, err)
		}
	}
}

// sweepsLongWindows has a window that lasts longer than slots are kept.
func sweepsLongWindows(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 10, WindowSize: 30 * day})
	first := b.assign(t, "done", noon)
	b.assign(t, "cancelled", noon)
	b.end(t, "done", nil)
	b.cancel(t, "cancelled")
	end := first.Window.Add(30 * day)
	b.clock.Advance(end.Sub(noon) - time.Minute)
	b.sweep(t, schedule.Removed{})
	if slot := b.assign(t, "new", b.clock.Now()); !slot.Window.Equal(first.Window) {
		t.Errorf("window %s, want the one that goes on, %s", slot.Window, first.Window)
	}
	b.end(t, "new", nil)
	b.used(t) // counters agree with slots
	b.clock.Advance(7 * day)
	b.sweep(t, schedule.Removed{})
	b.clock.Advance(time.Minute + time.Second)
	b.sweep(t, schedule.Removed{Slots: 3, Windows: 1})
	expect(t, b.used(t), map[int]int{})
	b.assign(t, "next", b.clock.Now())
}

// sweepLeavesRoom compares what can be assigned with and without sweeping.
func sweepLeavesRoom(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 2, Headroom: 3})
	b.assign(t, "old", noon)
	b.end(t, "old", nil)
	b.clock.Advance(8 * day)
	now := b.clock.Now()
	for i := range 3 {
		b.assign(t, fmt.Sprint("before", i), now)
	}
	b.sweep(t, schedule.Removed{Slots: 1, Windows: 1})
	for i := range 3 {
		b.assign(t, fmt.Sprint("after", i), now)
	}
	fresh := b.node(t, b.Open(), "")
	if _, err := fresh.Assign(t.Context(), schedule.Request{Event: "fresh", Plan: "p"}); err != nil {
		t.Fatal(err)
	}
	second := int(now.Sub(noon) / time.Second)
	expect(t, b.used(t), map[int]int{second: 2, second + 4: 2, second + 8: 2, second + 12: 1})

	// A clock that went ahead, and was set right after a sweep, leaves no
	// windows missing.
	b.assign(t, "cancelled", now.Add(16*time.Second))
	b.cancel(t, "cancelled")
	b.clock.Advance(30 * day)
	b.sweep(t, schedule.Removed{Slots: 1, Windows: 1})
	b.clock.Advance(-30 * day)
	fresh = b.node(t, b.Open(), "")
	if slot, err := fresh.Assign(t.Context(), schedule.Request{Event: "again", Plan: "p", At: now.Add(16 * time.Second)}); err != nil || !slot.Window.Equal(now.Add(16*time.Second)) {
		t.Errorf("%v: window %s, want %s", err, slot.Window, now.Add(16*time.Second))
	}
	expect(t, b.used(t), map[int]int{second: 2, second + 4: 2, second + 8: 2, second + 12: 1, second + 16: 1})
}

func sweepsAudit(t *testing.T, b *bench) {
	b.plan(t, small()) // an entry
	b.plan(t, schedule.Plan{Name: "other"})
	tenant := b.node(t, b.store, "tenant")
	if _, err := tenant.SetPlan(t.Context(), small()); err != nil {
		t.Fatal(err)
	}
	if _, err := tenant.Assign(t.Context(), schedule.Request{Event: "theirs", Plan: "p"}); err != nil {
		t.Fatal(err)
	}
	if _, err := tenant.Cancel(t.Context(), "theirs", ""); err != nil {
		t.Fatal(err)
	}
	b.assign(t, "e", noon)
	b.clock.Advance(50 * day)
	b.end(t, "e", nil)
	b.clock.Advance(40 * day)
	b.sweep(t, schedule.Removed{Slots: 1, Windows: 1})
	if n := len(b.actions(t, "e")); n != 2 {
		t.Errorf("%d entries of a slot that is gone, want 2", n)
	}
	b.clock.Advance(time.Second)
	b.sweep(t, schedule.Removed{Audit: 2})
	if n := len(b.actions(t, "e")); n != 2 {
		t.Errorf("%d entries, want the 2 of 40 days ago", n)
	}
	b.clock.Advance(50 * day)
	b.sweep(t, schedule.Removed{Audit: 2})
	if n := len(b.actions(t, "e")); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	if _, err := tenant.Slot(t.Context(), "theirs"); err != nil {
		t.Errorf("another tenant's slot was swept: %v", err)
	}
	if removed, err := tenant.Sweep(t.Context()); err != nil || removed.Slots != 1 || removed.Audit != 2 {
		t.Errorf("%v: %+v removed of the other tenant", err, removed)
	}
}

// sweepsInSteps looks at each step that a sweep takes.
func sweepsInSteps(t *testing.T, b *bench) {
	const events, size = 40, 7
	b.plan(t, schedule.Plan{MaxPerWindow: 1})
	b.batch(t, requests(events, "e", func(int) time.Time { return noon }))
	b.clock.Advance(time.Hour)
	for i, slot := range b.claim(t, "w", events) {
		if i%4 == 0 {
			continue // it stays claimed
		}
		if err := b.finish(t, &slot, schedule.Finished, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	b.clock.Advance(100 * day)
	for target, want := range map[schedule.SweepTarget]int{schedule.SweepSlots: 30, schedule.SweepAudit: 71} {
		if got := b.steps(t, target, size); got != want {
			t.Errorf("target %d: %d removed, want %d", target, got, want)
		}
	}
	if got := b.steps(t, schedule.SweepWindows, size); got < 30 {
		t.Errorf("%d windows removed, want 30 and those that were never used", got)
	}
	if n := len(b.used(t)); n != 10 {
		t.Errorf("%d windows are left, want the 10 whose slots are not finished", n)
	}
	if got := b.steps(t, schedule.SweepWindows, size); got != 0 {
		t.Errorf("%d windows removed the second time", got)
	}
	if _, err := b.store.Sweep(t.Context(), schedule.Sweeping{Plan: "nope", Max: size}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("no such plan: %v", err)
	}
}

// steps sweeps to the end and counts what that removes.
func (b *bench) steps(t *testing.T, target schedule.SweepTarget, size int) (removed int) {
	t.Helper()
	q := schedule.Sweeping{Plan: "p", Target: target, Before: b.clock.Now().Add(-7 * day), Max: size}
	for more := true; more; {
		swept, err := b.store.Sweep(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if swept.Removed > size {
			t.Errorf("a step removed %d, at most %d were allowed", swept.Removed, size)
		}
		if removed += swept.Removed; removed > 1000 {
			t.Fatal("it does not end")
		}
		q.After, more = swept.Next, swept.More
	}
	return removed
}

// manySweepers has nodes sweep while others assign, finish and cancel. Time
// goes by in leaps, so that much is over at any moment.
func manySweepers(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 3})
	const nodes, rounds, events = 2, 6, 9
	var working, sweepers sync.WaitGroup
	var mu sync.Mutex
	open := map[string]bool{} // events that are not finished
	var removed schedule.Removed
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range nodes {
		s := b.node(t, b.Open(), "")
		sweepers.Go(func() {
			for ctx.Err() == nil {
				got, err := s.Sweep(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				removed.Slots += got.Slots
				mu.Unlock()
			}
		})
	}
	for n := range nodes {
		s := b.node(t, b.Open(), "")
		working.Go(func() {
			for round := range rounds {
				b.clock.Advance(5 * day)
				rs := requests(events, fmt.Sprint(n, "-", round, "-"), func(int) time.Time { return b.clock.Now() })
				if _, err := s.AssignBatch(context.Background(), rs); err != nil {
					t.Error(err)
					return
				}
				for _, r := range rs {
					var err error
					switch rand.IntN(3) {
					case 0:
						_, err = s.Cancel(context.Background(), r.Event, "")
					case 1:
						var slot schedule.Slot
						if slot, err = s.Confirm(context.Background(), r.Event, "owner"); err == nil {
							err = s.Complete(context.Background(), r.Event, slot.Fence, nil)
						}
					default:
						mu.Lock()
						open[r.Event] = true
						mu.Unlock()
					}
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	working.Wait()
	cancel()
	sweepers.Wait()
	b.clock.Advance(100 * day)
	last, err := b.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := int(removed.Slots+last.Slots), nodes*rounds*events-len(open); got != want {
		t.Errorf("%d slots removed, want the %d that were finished", got, want)
	}
	for event := range open {
		b.kept(t, event)
	}
	windows, err := b.store.Windows(t.Context(), schedule.Selection{Plan: "p", From: time.UnixMicro(0), To: b.clock.Now(), Max: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range windows {
		page, err := b.Slots(t.Context(), schedule.SlotQuery{Plan: "p", From: time.UnixMicro(w.Start), To: time.UnixMicro(w.Start + w.Size)})
		if err != nil || len(page.Slots) == 0 {
			t.Errorf("%v: window %s has no slots and is still there", err, time.UnixMicro(w.Start).UTC())
		}
	}
}
