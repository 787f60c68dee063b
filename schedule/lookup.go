package schedule

import (
	"cmp"
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
)

// SlotQuery chooses slots of a plan by time.
type SlotQuery struct {
	Plan  string    `json:"plan,omitempty"` // empty means "default"
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	After Position  `json:"after,omitzero"` // where the page before ended: SlotPage.Next
	Max   int       `json:"max,omitempty"`  // 1 to 1000; 0 means 100
}

// SlotPage is one page of slots, in order of their time.
type SlotPage struct {
	Slots []Slot    `json:"slots"`
	Next  *Position `json:"next,omitempty"` // nil after the last page
}

// Slots lists the slots that are scheduled in [From, To).
func (s *Scheduler) Slots(ctx context.Context, q SlotQuery) (SlotPage, error) {
	if !q.From.Before(q.To) {
		return SlotPage{}, badinput.Field("to", q.To, "must be after from")
	}
	return s.page(ctx, Selection{Plan: q.Plan, From: q.From, To: q.To, After: q.After, Max: q.Max})
}

// page is one page of a selection.
func (s *Scheduler) page(ctx context.Context, q Selection) (answer SlotPage, err error) {
	if q.Max, err = page("max", q.Max); err != nil {
		return answer, err
	}
	q.Namespace, q.Plan = s.namespace, cmp.Or(q.Plan, DefaultPlan)
	if answer.Slots, err = s.store.Slots(ctx, q); err == nil && len(answer.Slots) == q.Max {
		answer.Next = position(&answer.Slots[q.Max-1])
	}
	s.atWork(answer.Slots)
	return answer, err
}

func position(s *Slot) *Position {
	return &Position{Scheduled: s.Scheduled.UnixMicro(), Event: s.Event}
}

// WindowOf lists the slots of the window that a moment is in.
func (s *Scheduler) WindowOf(ctx context.Context, plan string, at time.Time, after Position, max int) (SlotPage, error) {
	if plan == "" {
		plan = DefaultPlan
	}
	p, err := s.plans.get(ctx, plan)
	if err != nil {
		return SlotPage{}, err
	}
	e, _ := p.grid.era(at.UnixMicro())
	start := floorDiv(at.UnixMicro(), e.Size) * e.Size
	return s.Slots(ctx, SlotQuery{
		Plan: plan, From: time.UnixMicro(start), To: time.UnixMicro(start + e.Size), After: after, Max: max,
	})
}
