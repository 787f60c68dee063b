package schedule

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/badinput"
)

// How long things are kept unless a [Retention] says otherwise.
const (
	DefaultKeepSlots = 7 * 24 * time.Hour
	DefaultKeepAudit = 90 * 24 * time.Hour
)

const (
	// minKept lets clocks that differ, and calls that take long, do no harm:
	// what is removed is far behind everyone.
	minKept = time.Hour

	// sweepMost is how many rows a statement looks at: a few milliseconds.
	sweepMost = 500

	// sweepEvery is how often a process sweeps.
	sweepEvery = 10 * time.Minute
)

// Retention is for how long a scheduler's namespace keeps what is over. All
// who share a store should have the same, as the shortest one counts.
type Retention struct {
	// Slots is how long a slot is kept that is done, failed or cancelled,
	// counted from its end or from that of its window, whichever is later.
	// Asking for an event again answers the same slot for as long as the slot
	// is kept; after that the event is new, and would run again. So it has to
	// be longer than anybody repeats a request. A slot that is not finished is
	// kept for ever: see [Scheduler.Complete] and [Scheduler.Reconcile].
	// Windows go with their last slot. 0 means 7 days.
	Slots time.Duration

	// Audit is how long entries of the audit log are kept, also those of
	// slots that are gone. 0 means 90 days.
	Audit time.Duration
}

func (r Retention) withDefaults() (Retention, error) {
	if r.Slots == 0 {
		r.Slots = DefaultKeepSlots
	}
	if r.Audit == 0 {
		r.Audit = DefaultKeepAudit
	}
	switch {
	case r.Slots < minKept:
		return r, badinput.Field("retention.slots", r.Slots, "must be an hour at least")
	case r.Audit < minKept:
		return r, badinput.Field("retention.audit", r.Audit, "must be an hour at least")
	}
	return r, nil
}

// Removed counts what sweeping has removed.
type Removed struct {
	Slots   int64 `json:"slots"`
	Windows int64 `json:"windows"`
	Audit   int64 `json:"audit"` // entries of the audit log
}

func (r *Removed) of(target SweepTarget) *int64 {
	switch target {
	case SweepSlots:
		return &r.Slots
	case SweepWindows:
		return &r.Windows
	}
	return &r.Audit
}

// Sweep removes what is older than it is kept, in all plans of the namespace,
// a little at a time, and answers how much. Slots that are not finished stay,
// and so do windows that have slots or are not over, so nothing that is
// scheduled changes. What another node is sweeping at this moment is left to
// it. Dispatchers sweep by themselves, and so does a scheduler with
// [Config.Sweep].
func (s *Scheduler) Sweep(ctx context.Context) (Removed, error) {
	removed, err := s.sweep(ctx)
	s.stats.swept(removed, err != nil && ctx.Err() == nil)
	return removed, err
}

func (s *Scheduler) sweep(ctx context.Context) (removed Removed, err error) {
	now, err := s.storeNow(ctx)
	if err != nil {
		return removed, err
	}
	err = s.eachPlan(ctx, func(p *Plan) error { return s.sweepPlan(ctx, p.Name, now, &removed) })
	return removed, err
}

// eachPlan calls f with every plan until it returns an error.
func (s *Scheduler) eachPlan(ctx context.Context, f func(*Plan) error) error {
	for after := ""; ; {
		plans, err := s.store.Plans(ctx, PlanQuery{Namespace: s.namespace, After: after, Max: maxPage})
		if err != nil {
			return err
		}
		for i := range plans {
			if err := f(&plans[i].Plan); err != nil {
				return err
			}
		}
		if len(plans) < maxPage {
			return nil
		}
		after = plans[len(plans)-1].Plan.Name
	}
}

// sweepPlan removes slots before windows, which go with their last slot.
func (s *Scheduler) sweepPlan(ctx context.Context, plan string, now time.Time, removed *Removed) error {
	for _, step := range []struct {
		target SweepTarget
		kept   time.Duration
	}{
		{SweepSlots, s.retention.Slots}, {SweepWindows, s.retention.Slots}, {SweepAudit, s.retention.Audit},
	} {
		q := Sweeping{Namespace: s.namespace, Plan: plan, Target: step.target, Before: now.Add(-step.kept), Max: sweepMost}
		for more := true; more; {
			swept, err := s.store.Sweep(ctx, q)
			if err != nil {
				return err
			}
			*removed.of(step.target) += int64(swept.Removed)
			q.After, more = swept.Next, swept.More
		}
	}
	return nil
}

// storeNow is the store's own time: a node whose clock is wrong must not
// remove what is to be kept.
func (s *Scheduler) storeNow(ctx context.Context) (time.Time, error) {
	if s.clock.given != nil {
		return s.clock.given(), nil
	}
	there, err := s.store.Now(ctx)
	if err == nil {
		s.clock.saw(there)
	}
	return there, err
}

// sweeper sweeps in the background. A scheduler has one, whose turns its
// dispatchers share.
type sweeper struct {
	mu   sync.Mutex
	last time.Time // when the last turn began
}

// turn reports whether it is time to sweep.
func (w *sweeper) turn() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.last.IsZero() && now.Sub(w.last) < sweepEvery/2 {
		return false
	}
	w.last = now
	return true
}

// sweepRegularly sweeps now and then until ctx ends. It does not begin at once,
// because that is when a process has other things to do, but soon, lest one
// that never lives long never does.
func (s *Scheduler) sweepRegularly(ctx context.Context, everywhere bool) {
	for wait := sweepEvery / 10; backoff.Sleep(ctx, wait+rand.N(wait/4)); wait = sweepEvery {
		if !s.sweeper.turn() {
			continue
		}
		if !everywhere {
			s.sweepOnce(ctx)
		} else if err := s.Everywhere(ctx, func(s *Scheduler) error { s.sweepOnce(ctx); return ctx.Err() }); err != nil && ctx.Err() == nil {
			s.log.Warn("other namespaces are swept later", "error", err)
		}
	}
}

// sweepOnce sweeps a namespace and looks for leaked slots.
func (s *Scheduler) sweepOnce(ctx context.Context) {
	removed, err := s.Sweep(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		s.log.Warn("old slots are removed later", "error", err)
	case removed != Removed{}:
		s.log.Info("old slots removed", "slots", removed.Slots, "windows", removed.Windows, "audit", removed.Audit)
	}
	if err := s.lookForLeaks(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("leaked slots are looked for later", "error", err)
	}
}

// Close ends what goes on in the background if [Config.Sweep] is set, and
// does nothing otherwise. The store stays open; close it after.
func (s *Scheduler) Close() error {
	s.stop()
	s.stopped.Wait()
	return nil
}
