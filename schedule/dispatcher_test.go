package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/slotstore"
)

// rig is a scheduler on SQLite with a plan, in a bubble whose time is free.
type rig struct {
	*schedule.Scheduler
	buckets sluice.Store
	limiter *sluice.Limiter
	store   schedule.Store
}

func inBubble(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "slots.db")
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlite.Open(context.Background(), path)
		if err != nil {
			t.Fatal(err)
		}
		store := slotstore.New(db)
		buckets, err := memory.Open(memory.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := schedule.New(schedule.Config{Store: store, Log: slog.New(slog.DiscardHandler), Clock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.SetPlan(t.Context(), schedule.Plan{MaxPerWindow: 1000}); err != nil {
			t.Fatal(err)
		}
		test(t, &rig{s, buckets, sluice.New(buckets), store})
		for _, c := range []interface{ Close() error }{store, db, buckets} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func (r *rig) assign(t *testing.T, n int) {
	t.Helper()
	rs := make([]schedule.Request, n)
	for i := range rs {
		rs[i] = schedule.Request{Event: fmt.Sprint("e", i), Payload: []byte(fmt.Sprint(i))}
	}
	results, err := r.AssignBatch(t.Context(), rs)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
}

// run dispatches until stop is called.
func (r *rig) run(t *testing.T, c schedule.DispatcherConfig) (stop func()) {
	t.Helper()
	c.Limiter = r.limiter
	d, err := r.NewDispatcher(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func (r *rig) state(t *testing.T, event string) schedule.Slot {
	t.Helper()
	slot, err := r.Slot(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// TestDispatcherKeepsToTheLimit runs two dispatchers on one bucket.
func TestDispatcherKeepsToTheLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		const events = 200
		r.assign(t, events)
		time.Sleep(5 * time.Second) // all are due
		var mu sync.Mutex
		var starts []time.Time
		work := func(_ context.Context, job *schedule.Job) error {
			mu.Lock()
			defer mu.Unlock()
			starts = append(starts, time.Now())
			if string(job.Payload) != job.Event[1:] {
				t.Errorf("%s has payload %s", job.Event, job.Payload)
			}
			return nil
		}
		stopA := r.run(t, schedule.DispatcherConfig{Work: work, Name: "a"})
		stopB := r.run(t, schedule.DispatcherConfig{Work: work, Name: "b"})
		time.Sleep(6 * time.Second)
		stopA()
		stopB()
		slices.SortFunc(starts, time.Time.Compare)
		if len(starts) != events {
			t.Fatalf("%d starts, want %d", len(starts), events)
		}
		for i := 50; i < len(starts); i++ {
			if d := starts[i].Sub(starts[i-50]); d < time.Second {
				t.Fatalf("51 starts within %s", d)
			}
		}
		if took := starts[events-1].Sub(starts[0]); took > 4100*time.Millisecond {
			t.Errorf("it took %s, at 50/s it should be 3.98 s", took)
		}
		for i := range events {
			slot := r.state(t, fmt.Sprint("e", i))
			if slot.State != schedule.Done || slot.Attempts != 1 {
				t.Errorf("%+v", slot)
			}
		}
		entries, err := r.Audit(t.Context(), schedule.AuditQuery{Event: "e0"})
		if err != nil || len(entries) != 2 || entries[0].Action != schedule.Finished || entries[0].Granted.IsZero() || entries[0].Started.Before(entries[0].Scheduled) {
			t.Errorf("%v: audit %+v", err, entries)
		}
	})
}

func TestDispatcherRetriesWithBackoff(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.assign(t, 3)
		var mu sync.Mutex
		attempts := map[string][]time.Time{}
		work := func(_ context.Context, job *schedule.Job) error {
			mu.Lock()
			defer mu.Unlock()
			attempts[job.Event] = append(attempts[job.Event], time.Now())
			switch {
			case job.Event == "e0" && job.Attempts < 3:
				return errors.New("not yet")
			case job.Event == "e1":
				return schedule.Permanent(errors.New("never"))
			case job.Event == "e2":
				panic("at the disco")
			}
			return nil
		}
		stop := r.run(t, schedule.DispatcherConfig{Work: work, MaxAttempts: 4, Backoff: 10 * time.Second, MaxBackoff: 15 * time.Second})
		time.Sleep(2 * time.Minute)
		stop()
		for event, want := range map[string]struct {
			attempts int
			state    schedule.State
		}{"e0": {3, schedule.Done}, "e1": {1, schedule.Failed}, "e2": {4, schedule.Failed}} {
			if got := r.state(t, event); got.State != want.state || len(attempts[event]) != want.attempts {
				t.Errorf("%s: %d attempts and %s, want %+v", event, len(attempts[event]), got.State, want)
			}
		}
		for i, pause := range []time.Duration{10 * time.Second, 15 * time.Second} {
			if got := attempts["e0"][i+1].Sub(attempts["e0"][i]); got < pause*3/4 || got > pause*5/4+time.Second {
				t.Errorf("pause %d is %s, want about %s", i+1, got, pause)
			}
		}
	})
}

// TestSlowWorkerLosesItsClaim has a worker whose process hangs: it does not
// renew. Another finishes the slot, and the first cannot any more.
func TestSlowWorkerLosesItsClaim(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.assign(t, 1)
		time.Sleep(5 * time.Second)
		now := time.Now()
		hung, err := r.store.Claim(t.Context(), schedule.Claiming{Plan: "default", Worker: "hung", Now: now, Until: now.Add(2 * time.Second), Max: 1})
		if err != nil || len(hung) != 1 {
			t.Fatalf("%v: %v", err, hung)
		}
		var fence int64
		stop := r.run(t, schedule.DispatcherConfig{Life: 2 * time.Second, Work: func(ctx context.Context, job *schedule.Job) error {
			fence = job.Fence
			time.Sleep(10 * time.Second) // its own claim is renewed for as long as that
			return ctx.Err()
		}})
		time.Sleep(20 * time.Second)
		stop()
		if err := r.Complete(t.Context(), "e0", hung[0].Fence, nil); !errors.Is(err, schedule.ErrClaimLost) {
			t.Errorf("the hung worker finished: %v", err)
		}
		if slot := r.state(t, "e0"); slot.State != schedule.Done || fence <= hung[0].Fence || slot.Attempts != 2 {
			t.Errorf("%+v, fence %d", slot, fence)
		}
	})
}

func TestWorkEndsWhenItsClaimIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.assign(t, 1)
		lost := make(chan error, 1)
		stop := r.run(t, schedule.DispatcherConfig{Life: 3 * time.Second, Work: func(ctx context.Context, job *schedule.Job) error {
			// Somebody with a wrong clock takes the slot away.
			far := time.Now().Add(time.Hour)
			if _, err := r.store.Claim(ctx, schedule.Claiming{Plan: "default", Worker: "thief", Now: far, Until: far, Max: 1}); err != nil {
				return err
			}
			<-ctx.Done()
			lost <- context.Cause(ctx)
			return ctx.Err()
		}})
		if err := <-lost; !errors.Is(err, schedule.ErrClaimLost) {
			t.Errorf("the work ended because of %v", err)
		}
		stop()
		if slot := r.state(t, "e0"); slot.Worker != "thief" || slot.State != schedule.Running {
			t.Errorf("%+v", slot)
		}
	})
}

func TestPauseAndShutdown(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.assign(t, 500)
		time.Sleep(5 * time.Second)
		var mu sync.Mutex
		started := 0
		stop := r.run(t, schedule.DispatcherConfig{Work: func(context.Context, *schedule.Job) error {
			mu.Lock()
			defer mu.Unlock()
			started++
			return nil
		}})
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return started
		}
		time.Sleep(2 * time.Second)
		if err := r.Pause(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // a pause takes effect within a second
		paused := count()
		time.Sleep(10 * time.Second)
		if n := count(); n != paused {
			t.Errorf("%d started while paused", n-paused)
		}
		if err := r.Resume(t.Context(), "default"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		stop()
		if n := count(); n <= paused {
			t.Error("nothing started after it was resumed")
		}
		// What was claimed and not started is free at once.
		now := time.Now()
		rest, err := r.store.Claim(t.Context(), schedule.Claiming{Plan: "default", Worker: "w", Now: now, Until: now, Max: 1000})
		if err != nil || len(rest) != 500-count() {
			t.Errorf("%v: %d slots are free, want %d", err, len(rest), 500-count())
		}
		for i := range rest {
			if rest[i].Attempts != 1 {
				t.Errorf("%s has %d attempts", rest[i].Event, rest[i].Attempts)
			}
		}
	})
}

// TestDeadWorkersAreGivenUp has every attempt end with the worker's death.
func TestDeadWorkersAreGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.assign(t, 1)
		time.Sleep(5 * time.Second)
		for range 3 {
			now := time.Now()
			if slots, err := r.store.Claim(t.Context(), schedule.Claiming{Plan: "default", Worker: "dying", Now: now, Until: now, Max: 1}); err != nil || len(slots) != 1 {
				t.Fatal(slots, err)
			}
		}
		stop := r.run(t, schedule.DispatcherConfig{MaxAttempts: 3, Work: func(context.Context, *schedule.Job) error {
			t.Error("it was tried once more")
			return nil
		}})
		time.Sleep(time.Second)
		stop()
		if slot := r.state(t, "e0"); slot.State != schedule.Failed {
			t.Errorf("%+v", slot)
		}
	})
}

// TestOutageBurnsNoAttempts has what the work calls go down for ten minutes. No
// event fails, few are tried meanwhile, and all are done after.
func TestOutageBurnsNoAttempts(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		const events = 50
		r.assign(t, events)
		up := time.Now().Add(10 * time.Minute)
		var calls atomic.Int64
		stop := r.run(t, schedule.DispatcherConfig{Work: func(context.Context, *schedule.Job) error {
			if time.Now().Before(up) {
				calls.Add(1)
				return errors.New("connection refused")
			}
			return nil
		}})
		time.Sleep(5 * time.Minute)
		if got := r.Stats().Snapshot().Broken; got != 1 {
			t.Errorf("%d dispatchers wait, want 1", got)
		}
		time.Sleep(10 * time.Minute)
		stop()
		if n := calls.Load(); n > 100 {
			t.Errorf("%d calls while it was down", n)
		}
		for i := range events {
			if slot := r.state(t, fmt.Sprint("e", i)); slot.State != schedule.Done || slot.Attempts > 2 {
				t.Errorf("%+v", slot)
			}
		}
		if got := r.Stats().Snapshot().Broken; got != 0 {
			t.Errorf("%d dispatchers still wait", got)
		}
	})
}
