package schedule

import (
	"context"
	"time"

	"github.com/sluice-go/sluice/internal/badinput"
)

// Confirm notes that the owner has started an event by itself, or has handed
// it to something that will: no dispatcher runs it then, and reconciliation
// leaves it alone. Its fence goes with [Scheduler.Complete]. Confirming again, as
// the same worker, returns the same slot; for another worker it is [ErrConflict].
func (s *Scheduler) Confirm(ctx context.Context, event, worker string) (Slot, error) {
	if err := checkEvent(event); err != nil {
		return Slot{}, err
	}
	if err := checkWorker(worker); err != nil {
		return Slot{}, err
	}
	return s.store.Change(ctx, s.change(event, Confirmed, Change{Worker: worker}))
}

// Complete notes how an event ended that was confirmed: done if failure is
// nil, else failed. It may be repeated. [ErrClaimLost] if the fence is not the
// slot's, or it ended otherwise.
func (s *Scheduler) Complete(ctx context.Context, event string, fence int64, failure error) error {
	if err := checkEvent(event); err != nil {
		return err
	}
	c := s.change(event, Finished, Change{Fence: fence})
	c.Finished = c.Now
	if failure != nil {
		c.Action, c.Detail = GaveUp, trim(failure.Error())
	}
	_, err := s.store.Change(ctx, c)
	return err
}

// change is c with what all changes of this scheduler have.
func (s *Scheduler) change(event string, action Action, c Change) Change {
	c.Namespace, c.Event, c.Action, c.Now = s.namespace, event, action, s.clock.now()
	return c
}

const maxWorker = 200

func checkWorker(name string) error {
	if name == "" || len(name) > maxWorker || trim(name) != name {
		return badinput.Field("worker", name, "must be 1 to 200 bytes of text")
	}
	return nil
}

// Now is the store's time, as far as this process can tell.
func (s *Scheduler) Now() time.Time { return s.clock.now() }
