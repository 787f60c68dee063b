package schedule_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

// TestNothingStartsInABlackout sets a blackout after slots were assigned into it,
// while they are being dispatched.
func TestNothingStartsInABlackout(t *testing.T) {
	for _, pacing := range []schedule.Pacing{schedule.ByClock, schedule.ByAnswer} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.assign(t, 500)
			time.Sleep(5 * time.Second)
			var mu sync.Mutex
			var starts []time.Time
			stop := r.run(t, schedule.DispatcherConfig{Pacing: pacing, Work: func(context.Context, *schedule.Job) error {
				mu.Lock()
				defer mu.Unlock()
				starts = append(starts, time.Now())
				return nil
			}})
			time.Sleep(1505 * time.Millisecond)
			from := time.Now().Add(1313 * time.Millisecond)
			to := from.Add(5 * time.Second)
			plan, err := r.SetPlan(t.Context(), schedule.Plan{MaxPerWindow: 1000, Calendar: &schedule.Calendar{Blackouts: []schedule.Blackout{{From: from, To: to}}}})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			if slots, err := r.Work(t.Context(), schedule.Offer{Worker: "w"}); err != nil || len(slots) > 0 {
				t.Errorf("%v: %d slots were handed out", err, len(slots))
			}
			time.Sleep(15 * time.Second)
			stop()
			if len(starts) != 500 {
				t.Errorf("%d starts, want 500", len(starts))
			}
			last, next := from.Add(-time.Hour), to.Add(time.Hour)
			for _, at := range starts {
				if !at.Before(from) && at.Before(to) {
					t.Errorf("one started %s into a blackout of %s", at.Sub(from), to.Sub(from))
				}
				if at.Before(from) && at.After(last) {
					last = at
				}
				if !at.Before(to) && at.Before(next) {
					next = at
				}
			}
			if last.Before(from.Add(-50*time.Millisecond)) || next.After(to.Add(300*time.Millisecond)) {
				t.Errorf("nothing started for %s before it and %s after it", from.Sub(last), next.Sub(to))
			}
			// Claimed at first while it is closed, a plan is dispatched all the same.
			plan.Name, plan.Version = "closed", 0
			plan.Calendar.Blackouts = []schedule.Blackout{{From: time.Now(), To: time.Now().Add(time.Hour)}}
			if _, err := r.SetPlan(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Work(t.Context(), schedule.Offer{Plan: "closed", Worker: "w"}); err != nil {
				t.Fatal(err)
			}
			if plan, err = r.Plan(t.Context(), "closed"); err != nil || !plan.Dispatched {
				t.Errorf("%v: dispatched is %t", err, plan.Dispatched)
			}
		})
	}
}
