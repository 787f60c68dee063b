package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
)

// DefaultLeakAge is how long after its assignment a slot that nobody started
// counts as leaked.
const DefaultLeakAge = 10 * time.Minute

// maxLeaked bounds what one reconciliation looks at.
const maxLeaked = 100_000

// Reconciliation finds slots that were assigned and never started: whoever
// was to start them crashed in between.
type Reconciliation struct {
	Plan string        `json:"plan"`
	Age  time.Duration `json:"-"` // how long ago a slot was assigned; 0 means 10 minutes

	// Overdue leaves out slots whose time is still ahead. Set it for owners that
	// start an event when its time has come.
	Overdue bool `json:"overdue,omitempty"`

	// DryRun only tells what would be reclaimed.
	DryRun bool `json:"dryRun,omitempty"`

	// Started asks the owner whether an event did start. If so its slot is
	// confirmed, and not asked about again. It must be given unless it is a
	// dry run; whoever knows that nothing started answers false.
	Started func(ctx context.Context, s Slot) (bool, error) `json:"-"`

	most int // slots to look at; 0 means maxLeaked
}

// ReconcileReport is what a reconciliation found.
type ReconcileReport struct {
	Looked    int    `json:"looked"`    // slots that nobody had started
	Confirmed int    `json:"confirmed"` // of which the owner had
	Reclaimed int    `json:"reclaimed"`
	Leaked    []Slot `json:"leaked"` // reclaimed, or to be reclaimed in a dry run
}

// Reconcile finds leaked slots and reclaims them: their room is given back, and
// the event can be assigned again. Until that happens the slot stays, payload
// and all, for as long as finished slots are kept. A slot that was claimed or
// confirmed, even a moment before, is never reclaimed. Each one is audited.
//
// In plans that are paused, and in those whose slots workers claim, what waits
// is not leaked: Reconcile returns [ErrConflict].
func (s *Scheduler) Reconcile(ctx context.Context, r Reconciliation) (*ReconcileReport, error) {
	if r.Plan == "" {
		r.Plan = DefaultPlan
	}
	if r.Age == 0 {
		r.Age = DefaultLeakAge
	}
	switch {
	case r.Age < 0:
		return nil, badinput.Field("age", r.Age, "must not be negative")
	case r.Started == nil && !r.DryRun:
		return nil, badinput.Field("started", nil, "must be given, unless it is a dry run: it says whether the owner has started an event")
	}
	now := s.clock.now()
	scheduled := time.UnixMicro(forever)
	if r.Overdue {
		scheduled = now.Add(-r.Age)
	}
	p, err := activePlan(ctx, s.store, s.namespace, r.Plan)
	if err != nil {
		return nil, err
	}
	if err := p.Plan.Reclaimable(); err != nil {
		return nil, err
	}
	report := &ReconcileReport{}
	for after := (Position{}); report.Looked < cmp.Or(r.most, maxLeaked); {
		slots, err := s.store.Slots(ctx, Selection{
			Namespace: s.namespace, Plan: r.Plan, Order: Unstarted, From: now.Add(-r.Age), To: scheduled, After: after, Max: maxPage,
		})
		if err != nil {
			return report, err
		}
		for i := range slots {
			if err := s.reconcile(ctx, &r, &slots[i], report); err != nil {
				return report, fmt.Errorf("event %q: %w", slots[i].Event, err)
			}
		}
		if len(slots) < maxPage {
			break
		}
		after = *position(&slots[len(slots)-1])
	}
	if report.Reclaimed > 0 {
		s.roomIn(r.Plan)
	}
	s.log.Info("slots reconciled", "plan", r.Plan, "dryRun", r.DryRun, "looked", report.Looked,
		"confirmed", report.Confirmed, "leaked", len(report.Leaked), "reclaimed", report.Reclaimed)
	return report, nil
}

func (s *Scheduler) reconcile(ctx context.Context, r *Reconciliation, slot *Slot, report *ReconcileReport) error {
	report.Looked++
	if r.Started != nil {
		started, err := r.Started(ctx, *slot)
		if err != nil {
			return err
		}
		if started {
			report.Confirmed++
			if r.DryRun {
				return nil
			}
			if _, err := s.store.Change(ctx, s.change(slot.Event, Confirmed, Change{Worker: "owner"})); err != nil && !gone(err) {
				return err
			}
			return nil
		}
	}
	if !r.DryRun {
		_, err := s.store.Change(ctx, s.change(slot.Event, Reclaimed, Change{Detail: "assigned " + slot.Created.Format(time.RFC3339) + " and never started"}))
		if gone(err) {
			return nil // it started meanwhile, or somebody else reclaimed it
		}
		if err != nil {
			return err
		}
		report.Reclaimed++
	}
	report.Leaked = append(report.Leaked, *slot)
	return nil
}

// Reclaimable returns [ErrConflict] if what waits in the plan is not leaked, as
// the plan is paused, or workers claim its slots.
func (p *Plan) Reclaimable() error {
	switch {
	case p.Paused:
		return fmt.Errorf("plan %s is paused, so what waits is not leaked: %w", p.Name, ErrConflict)
	case p.Dispatched:
		return fmt.Errorf("workers claim the slots of plan %s, so what waits is not leaked: %w", p.Name, ErrConflict)
	}
	return nil
}

// lookForLeaks reconciles all plans: it logs what is leaked, and reclaims it
// only if the scheduler is configured so.
func (s *Scheduler) lookForLeaks(ctx context.Context) error {
	leaked := 0
	err := s.eachPlan(ctx, func(p *Plan) error {
		if p.Reclaimable() != nil {
			return nil
		}
		r := Reconciliation{Plan: p.Name, Overdue: true, DryRun: !s.reclaim, most: maxPage}
		r.Started = func(context.Context, Slot) (bool, error) { return false, nil }
		report, err := s.Reconcile(ctx, r)
		if err != nil && !gone(err) { // it may be paused by now
			return err
		}
		if report != nil && len(report.Leaked) > 0 {
			leaked += len(report.Leaked)
			s.log.Warn("slots are leaked: assigned, overdue and never started", "plan", p.Name, "slots", len(report.Leaked),
				"first", report.Leaked[0].Event, "reclaimed", report.Reclaimed)
		}
		return nil
	})
	if err == nil {
		s.stats.leaksIn(s.namespace, leaked)
	}
	return err
}

func gone(err error) bool { return errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) }
