package schedule_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
)

// TestWorkIsDoneOnce: what may have been executed is not repeated, also if the
// process dies.
func TestWorkIsDoneOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.assign(t, 4)
		time.Sleep(5 * time.Second)
		starts := map[string]int{}
		stop := r.run(t, schedule.DispatcherConfig{Once: true, Concurrency: 1, Life: 10 * time.Second, Work: func(ctx context.Context, job *schedule.Job) error {
			starts[job.Event]++
			if s := r.state(t, job.Event); s.State != schedule.Running {
				t.Errorf("%s is %s while it runs", s.Event, s.State)
			}
			switch job.Event {
			case "e0":
				panic("oh")
			case "e1":
				return schedule.OutcomeUnknown(errors.New("no answer"))
			case "e2":
				if starts["e2"] == 1 {
					return errors.New("refused")
				}
			case "e3":
				<-ctx.Done()
				return schedule.OutcomeUnknown(context.Cause(ctx))
			}
			return nil
		}})
		time.Sleep(2 * time.Minute) // several lives of a claim
		stop()
		for event, want := range map[string]schedule.State{"e0": schedule.Unknown, "e1": schedule.Unknown, "e2": schedule.Done, "e3": schedule.Unknown} {
			if s := r.state(t, event); s.State != want {
				t.Errorf("%s is %s, want %s", event, s.State, want)
			}
		}
		if starts["e0"] != 1 || starts["e1"] != 1 || starts["e2"] != 2 || starts["e3"] != 1 {
			t.Errorf("started %v", starts)
		}
	})
}

// TestWorkOfADeadProcessIsNotRepeated: its claims run out, except where the work
// has begun.
func TestWorkOfADeadProcessIsNotRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.assign(t, 2)
		time.Sleep(5 * time.Second)
		now := time.Now()
		slots, err := r.store.Claim(t.Context(), schedule.Claiming{Plan: "default", Worker: "dead", Now: now, Until: now.Add(10 * time.Second), Max: 2})
		if err != nil || len(slots) != 2 {
			t.Fatal(err, slots)
		}
		begun, waits := slots[0], slots[1]
		if _, err := r.store.Change(t.Context(), schedule.Change{
			Event: begun.Event, Fence: begun.Fence, Action: schedule.Begun, Now: now, Due: now.Add(10 * time.Second),
		}); err != nil {
			t.Fatal(err)
		}
		ran := map[string]int{}
		stop := r.run(t, schedule.DispatcherConfig{Once: true, Concurrency: 1, Work: func(_ context.Context, job *schedule.Job) error {
			ran[job.Event]++
			return nil
		}})
		time.Sleep(2 * time.Minute) // several lives of a claim
		stop()
		if len(ran) != 1 || ran[waits.Event] != 1 {
			t.Errorf("ran %v, want %s once", ran, waits.Event)
		}
		if s := r.state(t, begun.Event); s.State != schedule.Unknown || s.Worker != "dead" {
			t.Errorf("%+v", s)
		}
	})
}
