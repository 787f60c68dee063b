package temporal

import (
	"context"
	"errors"

	"github.com/sluice-go/sluice/schedule"
)

// Reconcile finishes what a crash has left between the phases. It finds the
// slots of a plan whose workflows are not known to be started and starts them:
// in their slots, or in later ones if those have passed. Temporal is asked about
// each in the same call, as it refuses to start a workflow twice. So nothing
// is reclaimed; to give up an event, call [Starter.Cancel].
//
// A dry run only asks. The slots in its report are those without a workflow.
func (s *Starter) Reconcile(ctx context.Context, r schedule.Reconciliation) (*schedule.ReconcileReport, error) {
	r.Started = s.finish
	if r.DryRun {
		r.Started = s.exists
	}
	return s.slots.Reconcile(ctx, r)
}

func (s *Starter) finish(ctx context.Context, slot schedule.Slot) (bool, error) {
	_, err := s.start(ctx, slot)
	if errors.Is(err, ErrCancelled) || errors.Is(err, ErrBegun) {
		err = nil // its slot is given back
	}
	return true, err
}

func (s *Starter) exists(ctx context.Context, slot schedule.Slot) (bool, error) {
	_, err := s.describe(ctx, slot.Event)
	if notFound(err) {
		return false, nil
	}
	return true, err
}
