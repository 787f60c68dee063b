package schedule_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/schedule"
)

// cancelled makes a scheduler with a slot that is cancelled, and leaps to when
// it is to be removed.
func (r *rig) cancelled(t *testing.T, config schedule.Config) *schedule.Scheduler {
	t.Helper()
	clock := &testclock.Ahead{}
	config.Store, config.Clock, config.Log = r.store, clock.Now, slog.New(slog.DiscardHandler)
	s, err := schedule.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Assign(t.Context(), schedule.Request{Event: "old"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(t.Context(), "old", ""); err != nil {
		t.Fatal(err)
	}
	clock.Set(8 * 24 * time.Hour)
	if _, err := s.Assign(t.Context(), schedule.Request{Event: "new", At: clock.Now().Add(24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	return s
}

func swept(t *testing.T, s *schedule.Scheduler) {
	t.Helper()
	if _, err := s.Slot(t.Context(), "old"); !errors.Is(err, schedule.ErrNotFound) {
		t.Errorf("the old slot is still there: %v", err)
	}
	if _, err := s.Slot(t.Context(), "new"); err != nil {
		t.Error(err)
	}
	if got := s.Stats().Snapshot(); got.Swept.Slots != 1 || got.Swept.Windows == 0 || got.SweepFailures != 0 {
		t.Errorf("counted %+v and %d failures", got.Swept, got.SweepFailures)
	}
}

func TestDispatcherSweeps(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.Scheduler = r.cancelled(t, schedule.Config{})
		work := func(context.Context, *schedule.Job) error { return nil }
		stop := r.run(t, schedule.DispatcherConfig{Work: work})
		time.Sleep(2 * time.Minute)
		stop()
		swept(t, r.Scheduler)
	})
}

func TestSchedulerSweeps(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := r.cancelled(t, schedule.Config{Sweep: true})
		time.Sleep(2 * time.Minute)
		swept(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("closing twice: %v", err)
		}
	})
}

func TestSchedulerDoesNotSweepUnasked(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := r.cancelled(t, schedule.Config{})
		time.Sleep(2 * time.Minute)
		if _, err := s.Slot(t.Context(), "old"); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestAllNamespacesAreSwept has a scheduler sweep and look for leaks in others
// than its own.
func TestAllNamespacesAreSwept(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := r.cancelled(t, schedule.Config{Sweep: true})
		others := []string{"acme", "bolt"}
		for _, name := range others {
			other, err := r.In(name)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := r.In(name); err != nil || again != other {
				t.Errorf("%v: another scheduler for the same namespace", err)
			}
			if _, err := other.SetPlan(t.Context(), schedule.Plan{}); err != nil {
				t.Fatal(err)
			}
			if _, err := other.Assign(t.Context(), schedule.Request{Event: "e0"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Minute)
		if got := s.Stats().Snapshot().Leaked; got != 2 {
			t.Errorf("%d leaked slots are reported, want 2", got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestFailedSweepsAreCounted has sweeps fail, which are tried again in their turn.
func TestFailedSweepsAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		gone := &unsweepable{Store: r.store}
		s, err := schedule.New(schedule.Config{Store: gone, Sweep: true, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if got := s.Stats().Snapshot().SweepFailures; got != 1 {
			t.Errorf("%d failures counted, want 1", got)
		}
		time.Sleep(13 * time.Minute)
		if got := s.Stats().Snapshot().SweepFailures; got != 2 {
			t.Errorf("%d failures counted after the next turn, want 2", got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// unsweepable is a store whose sweeps fail.
type unsweepable struct{ schedule.Store }

func (*unsweepable) Sweep(context.Context, schedule.Sweeping) (schedule.Swept, error) {
	return schedule.Swept{}, errors.New("the disk is full")
}

// TestLeaksAreFound has slots that nobody starts. They are reported, and
// reclaimed only if that was asked for.
func TestLeaksAreFound(t *testing.T) {
	for _, reclaim := range []bool{false, true} {
		inBubble(t, func(t *testing.T, r *rig) {
			s, err := schedule.New(schedule.Config{Store: r.store, Sweep: true, Reclaim: reclaim, Clock: time.Now, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			r.assign(t, 3)
			if _, err := r.SetPlan(t.Context(), schedule.Plan{Name: "paused"}); err != nil {
				t.Fatal(err)
			}
			if err := r.Pause(t.Context(), "paused"); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Assign(t.Context(), schedule.Request{Event: "waits", Plan: "paused"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(30 * time.Minute)
			want := map[string]schedule.State{"e0": schedule.Waiting, "waits": schedule.Waiting}
			if reclaim {
				want["e0"] = schedule.Leaked
			} else if got := s.Stats().Snapshot().Leaked; got != 3 {
				t.Errorf("%d leaked slots are reported, want 3", got)
			}
			for event, state := range want {
				if slot, err := s.Slot(t.Context(), event); err != nil || slot.State != state {
					t.Errorf("reclaim %t: %v: %+v, want %s", reclaim, err, slot, state)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
