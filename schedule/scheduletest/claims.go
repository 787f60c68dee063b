package scheduletest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

func (b *bench) claim(t *testing.T, worker string, max int) []schedule.Slot {
	t.Helper()
	slots, err := b.store.Claim(t.Context(), schedule.Claiming{
		Plan: "p", Worker: worker, Now: b.clock.Now(), Until: b.clock.Now().Add(10 * time.Second), Max: max,
	})
	if err != nil {
		t.Fatal(err)
	}
	return slots
}

func (b *bench) finish(t *testing.T, s *schedule.Slot, action schedule.Action, due time.Time) error {
	t.Helper()
	_, err := b.store.Change(t.Context(), schedule.Change{
		Event: s.Event, Fence: s.Fence, Action: action, Now: b.clock.Now(), Due: due,
		Started: b.clock.Now(), Finished: b.clock.Now(), Detail: "because",
	})
	return err
}

func (b *bench) actions(t *testing.T, event string) []schedule.Action {
	t.Helper()
	entries, err := b.Audit(t.Context(), schedule.AuditQuery{Event: event})
	if err != nil {
		t.Fatal(err)
	}
	var actions []schedule.Action
	for _, e := range slices.Backward(entries) {
		if e.Plan != "p" || e.Event != event {
			t.Errorf("entry %+v", e)
		}
		actions = append(actions, e.Action)
	}
	return actions
}

func cancelling(t *testing.T, b *bench) {
	b.plan(t, small())
	for i := range 4 {
		b.assign(t, fmt.Sprint("e", i), noon)
	}
	slot, err := b.Cancel(t.Context(), "e1", "not wanted")
	if err != nil || slot.State != schedule.Cancelled {
		t.Fatalf("%v: %+v", err, slot)
	}
	if _, err := b.Cancel(t.Context(), "e1", "again"); err != nil {
		t.Errorf("cancelling twice: %v", err)
	}
	expect(t, b.used(t), map[int]int{0: 2, 4: 1})
	b.assign(t, "new", noon)
	expect(t, b.used(t), map[int]int{0: 3, 4: 1})
	again, err := b.Assign(t.Context(), schedule.Request{Event: "e1", Plan: "p"})
	if err != nil || again.State != schedule.Cancelled || !again.Existing {
		t.Errorf("%v: a cancelled event became %+v", err, again)
	}
	if _, err := b.Cancel(t.Context(), "nope", ""); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("no such event: %v", err)
	}
	b.clock.Advance(time.Minute)
	if n := len(b.claim(t, "w", 10)); n != 4 {
		t.Errorf("%d slots claimed, want the 4 that are not cancelled", n)
	}
	if _, err := b.Cancel(t.Context(), "e0", ""); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("cancelling what runs: %v", err)
	}
	if got := b.actions(t, "e1"); !slices.Equal(got, []schedule.Action{schedule.Withdrawn}) {
		t.Errorf("audit %v", got)
	}
}

func claims(t *testing.T, b *bench) {
	b.plan(t, small())
	if _, err := b.Assign(t.Context(), schedule.Request{Event: "e", Plan: "p", Payload: []byte(`[1]`)}); err != nil {
		t.Fatal(err)
	}
	b.assign(t, "later", noon.Add(time.Hour))
	next, err := b.store.Slots(t.Context(), schedule.Selection{Plan: "p", Order: schedule.ByDue, Max: 1})
	slot, _ := b.Slot(t.Context(), "e")
	if err != nil || len(next) != 1 || !next[0].Due.Equal(slot.Scheduled) {
		t.Errorf("%v: next due is %+v, want %s", err, next, slot.Scheduled)
	}
	if n := len(b.claim(t, "early", 10)); n != 0 && slot.Scheduled.After(b.clock.Now()) {
		t.Errorf("%d slots claimed before they were due", n)
	}
	b.clock.Advance(5 * time.Second)
	got := b.claim(t, "w", 10)
	if len(got) != 1 || got[0].Event != "e" || got[0].Attempts != 1 || got[0].State != schedule.Running ||
		got[0].Worker != "w" || got[0].Fence == 0 || string(got[0].Payload) != `[1]` {
		t.Fatalf("claimed %+v", got)
	}
	if n := len(b.claim(t, "other", 10)); n != 0 {
		t.Errorf("%d slots claimed twice", n)
	}
	for _, due := range []time.Duration{time.Minute, time.Hour} { // the second repeats the first
		if err := b.finish(t, &got[0], schedule.Retried, b.clock.Now().Add(due)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.finish(t, &got[0], schedule.Finished, time.Time{}); !errors.Is(err, schedule.ErrClaimLost) {
		t.Errorf("finishing twice: %v", err)
	}
	if n := len(b.claim(t, "w", 10)); n != 0 {
		t.Errorf("%d slots claimed before the retry was due", n)
	}
	b.clock.Advance(time.Minute)
	second := b.claim(t, "w", 10)
	if len(second) != 1 || second[0].Attempts != 2 || second[0].Fence <= got[0].Fence {
		t.Fatalf("claimed %+v", second)
	}
	if err := b.finish(t, &second[0], schedule.Released, b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	third := b.claim(t, "w", 10)
	if len(third) != 1 || third[0].Attempts != 2 {
		t.Fatalf("claimed %+v", third)
	}
	if err := b.finish(t, &third[0], schedule.Finished, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if slot, err := b.Slot(t.Context(), "e"); err != nil || slot.State != schedule.Done {
		t.Errorf("%v: %+v", err, slot)
	}
	want := []schedule.Action{schedule.Claimed, schedule.Retried, schedule.Claimed, schedule.Released, schedule.Claimed, schedule.Finished}
	if got := b.actions(t, "e"); !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
}

func lostClaims(t *testing.T, b *bench) {
	b.plan(t, small())
	b.assign(t, "e", noon)
	b.clock.Advance(5 * time.Second)
	slow := b.claim(t, "slow", 1)[0]
	claim := []schedule.Claim{{Event: "e", Fence: slow.Fence}}
	b.clock.Advance(9 * time.Second)
	if lost, err := b.store.Renew(t.Context(), "", claim, b.clock.Now().Add(10*time.Second)); err != nil || len(lost) != 0 {
		t.Fatalf("%v: renewing in time lost %v", err, lost)
	}
	b.clock.Advance(9 * time.Second)
	if n := len(b.claim(t, "other", 1)); n != 0 {
		t.Fatal("claimed though it was renewed")
	}
	b.clock.Advance(2 * time.Second)
	other := b.claim(t, "other", 1)
	if len(other) != 1 || other[0].Attempts != 2 || other[0].Fence <= slow.Fence {
		t.Fatalf("claimed %+v", other)
	}
	if lost, err := b.store.Renew(t.Context(), "", claim, b.clock.Now().Add(time.Hour)); err != nil || len(lost) != 1 {
		t.Errorf("%v: renewing too late lost %v", err, lost)
	}
	if err := b.finish(t, &slow, schedule.Finished, time.Time{}); !errors.Is(err, schedule.ErrClaimLost) {
		t.Errorf("the slow worker finished another's slot: %v", err)
	}
	if err := b.finish(t, &other[0], schedule.GaveUp, time.Time{}); err != nil {
		t.Fatal(err)
	}
	want := []schedule.Action{schedule.Claimed, schedule.Lost, schedule.Claimed, schedule.GaveUp}
	if got := b.actions(t, "e"); !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
}

func pausing(t *testing.T, b *bench) {
	b.plan(t, small())
	b.assign(t, "e", noon)
	b.clock.Advance(5 * time.Second)
	if err := b.Pause(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if p, err := b.Plan(t.Context(), "p"); err != nil || !p.Paused {
		t.Errorf("%v: %+v is not paused", err, p)
	}
	if n := len(b.claim(t, "w", 1)); n != 0 {
		t.Error("claimed though paused")
	}
	if err := b.Resume(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if n := len(b.claim(t, "w", 1)); n != 1 {
		t.Error("not claimed though resumed")
	}
	if err := b.Pause(t.Context(), "nope"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("no such plan: %v", err)
	}
}

func confirming(t *testing.T, b *bench) {
	b.plan(t, small())
	b.assign(t, "e", noon.Add(time.Hour))
	slot, err := b.Confirm(t.Context(), "e", "temporal")
	if err != nil || slot.State != schedule.Running || slot.Worker != "temporal" {
		t.Fatalf("%v: %+v", err, slot)
	}
	if again, err := b.Confirm(t.Context(), "e", "temporal"); err != nil || again.Fence != slot.Fence || again.Attempts != slot.Attempts {
		t.Errorf("confirmed again: %v: %+v", err, again)
	}
	if _, err := b.Confirm(t.Context(), "e", "another"); !errors.Is(err, schedule.ErrConflict) {
		t.Errorf("confirmed by two: %v", err)
	}
	if slot, err := b.Slot(t.Context(), "e"); err != nil || !slot.Due.IsZero() {
		t.Errorf("%v: %+v is never due", err, slot)
	}
	b.clock.Advance(1000 * time.Hour)
	if n := len(b.claim(t, "w", 1)); n != 0 {
		t.Error("a dispatcher claimed what its owner runs")
	}
	for range 2 {
		if err := b.Complete(t.Context(), "e", slot.Fence, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Complete(t.Context(), "e", slot.Fence, errors.New("no")); !errors.Is(err, schedule.ErrClaimLost) {
		t.Errorf("done, and then failed: %v", err)
	}
	b.assign(t, "f", noon)
	failed, err := b.Confirm(t.Context(), "f", "temporal")
	for range 2 {
		if err == nil {
			err = b.Complete(t.Context(), "f", failed.Fence, errors.New("no"))
		}
	}
	if err != nil {
		t.Error(err)
	}
	if got := b.actions(t, "f"); !slices.Equal(got, []schedule.Action{schedule.Confirmed, schedule.GaveUp}) {
		t.Errorf("audit %v", got)
	}
	if slot, err := b.Slot(t.Context(), "e"); err != nil || slot.State != schedule.Done {
		t.Errorf("%v: %+v", err, slot)
	}
	if got := b.actions(t, "e"); !slices.Equal(got, []schedule.Action{schedule.Confirmed, schedule.Finished}) {
		t.Errorf("audit %v", got)
	}
}

// manyClaimers has several nodes claim and finish; each slot is done once.
func manyClaimers(t *testing.T, b *bench) {
	b.plan(t, schedule.Plan{MaxPerWindow: 1000})
	const events = 60
	b.batch(t, requests(events, "e", func(int) time.Time { return noon }))
	b.clock.Advance(time.Hour)
	var mu sync.Mutex
	claimed := map[string]int{}
	var group sync.WaitGroup
	for n := range 4 {
		store := b.Open()
		group.Go(func() {
			for {
				slots, err := store.Claim(context.Background(), schedule.Claiming{
					Plan: "p", Worker: fmt.Sprint("w", n), Now: b.clock.Now(), Until: b.clock.Now().Add(time.Minute), Max: 7,
				})
				if err != nil {
					t.Error(err)
					return
				}
				if len(slots) == 0 {
					break
				}
				for i := range slots {
					mu.Lock()
					claimed[slots[i].Event]++
					mu.Unlock()
					_, err := store.Change(context.Background(), schedule.Change{
						Event: slots[i].Event, Fence: slots[i].Fence, Action: schedule.Finished, Now: b.clock.Now(),
					})
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	if len(claimed) != events {
		t.Errorf("%d of %d events were claimed", len(claimed), events)
	}
	for event, n := range claimed {
		if n != 1 {
			t.Errorf("%s was claimed %d times", event, n)
		}
	}
}
