package schedule

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
)

// Confirm notes that the owner has started an event by itself, or has handed
// it to something that will: no dispatcher runs it then, and reconciliation
// leaves it alone. Its fence goes with [Scheduler.Complete].
func (s *Scheduler) Confirm(ctx context.Context, event, worker string) (Slot, error) {
	if err := checkEvent(event); err != nil {
		return Slot{}, err
	}
	if err := checkWorker(worker); err != nil {
		return Slot{}, err
	}
	return s.store.ClaimEvent(ctx, s.namespace, event, worker, s.clock.now())
}

// Complete notes how an event ended that was confirmed: done if failure is
// nil, else failed. [ErrClaimLost] if the fence is not the slot's.
func (s *Scheduler) Complete(ctx context.Context, event string, fence int64, failure error) error {
	if err := checkEvent(event); err != nil {
		return err
	}
	now := s.clock.now()
	f := Finish{Claim: Claim{Event: event, Fence: fence}, Action: Finished, Now: now, Finished: now}
	if failure != nil {
		f.Action, f.Detail = GaveUp, trim(failure.Error())
	}
	return s.store.Finish(ctx, s.namespace, f)
}

const maxWorker = 200

func checkWorker(name string) error {
	if name == "" || len(name) > maxWorker || trim(name) != name {
		return sluice.BadField("worker", name, "must be 1 to 200 bytes of text")
	}
	return nil
}

// Now is the store's time, as far as this process can tell.
func (s *Scheduler) Now() time.Time { return s.clock.now() }
