package scheduletest

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

func working(t *testing.T, b *bench) {
	b.plan(t, small())
	for _, event := range []string{"a", "b", "later"} {
		b.assign(t, event, noon)
	}
	b.clock.Advance(5 * time.Second)
	offer := schedule.Offer{Plan: "p", Worker: "w", Life: 10 * time.Second, Max: 2}
	work := func() []schedule.Slot {
		t.Helper()
		slots, err := b.Work(t.Context(), offer)
		if err != nil {
			t.Fatal(err)
		}
		return slots
	}
	got := work()
	if len(got) != 2 || got[0].Worker != "w" || !got[0].Due.Equal(b.clock.Now().Add(offer.Life)) {
		t.Fatalf("%+v", got)
	}
	if more := work(); len(more) != 1 {
		t.Fatalf("%+v", more)
	}
	for range 2 { // again, after a lost answer
		if err := b.Complete(t.Context(), got[0].Event, got[0].Fence, nil); err != nil {
			t.Error(err)
		}
		b.clock.Advance(6 * time.Second)
		if err := b.Extend(t.Context(), got[1].Event, got[1].Fence, offer.Life); err != nil {
			t.Error(err)
		}
	}
	lost := work() // the third
	if len(lost) != 1 || lost[0].Attempts != 2 {
		t.Fatalf("%+v", lost)
	}
	if err := b.Extend(t.Context(), lost[0].Event, lost[0].Fence-1, 0); !errors.Is(err, schedule.ErrClaimLost) {
		t.Errorf("extended a claim that is lost: %v", err)
	}
	if _, err := b.Fail(t.Context(), lost[0].Event, lost[0].Fence-1, "no"); !errors.Is(err, schedule.ErrClaimLost) {
		t.Errorf("failed a claim that is lost: %v", err)
	}
	// Until all attempts are used up.
	slot := got[1]
	for attempt := 1; attempt <= 5; attempt++ {
		want := schedule.Waiting
		if attempt == 5 {
			want = schedule.Failed
		}
		for range 2 {
			if after, err := b.Fail(t.Context(), slot.Event, slot.Fence, "no"); err != nil || after.State != want || after.Attempts != attempt {
				t.Fatalf("%v: %+v after attempt %d", err, after, attempt)
			}
		}
		if len(work()) != 0 {
			t.Error("tried again at once")
		}
		b.clock.Advance(time.Minute)
		for _, slot = range work() {
			if slot.Event == got[1].Event {
				break
			}
			if err := b.Complete(t.Context(), slot.Event, slot.Fence, nil); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := b.Work(t.Context(), schedule.Offer{Plan: "nope", Worker: "w"}); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("no such plan: %v", err)
	}
	if _, err := b.Work(t.Context(), schedule.Offer{Plan: "p"}); err == nil {
		t.Error("a worker without a name")
	}
	// One whose workers all die.
	b.assign(t, "deadly", b.clock.Now())
	b.clock.Advance(5 * time.Second)
	for range 5 {
		if n := len(work()); n != 1 {
			t.Fatalf("%d handed out, want 1", n)
		}
		b.clock.Advance(11 * time.Second)
	}
	if n := len(work()); n != 0 {
		t.Errorf("%d handed out after five attempts", n)
	}
	if slot, err := b.Slot(t.Context(), "deadly"); err != nil || slot.State != schedule.Failed {
		t.Errorf("%v: %+v", err, slot)
	}
}
