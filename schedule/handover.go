package schedule

import "context"

// HandOver ends the slot of an event that something else is certain to run
// from now on, such as a workflow that was started with a delay: no dispatcher
// runs it, and it is not leaked. worker names who has it. Unlike after
// [Scheduler.Confirm] nothing is left to complete. Handing over twice is no
// error; a slot that somebody has claimed is [ErrConflict].
func (s *Scheduler) HandOver(ctx context.Context, event, worker string) (Slot, error) {
	if err := checkEvent(event); err != nil {
		return Slot{}, err
	}
	if err := checkWorker(worker); err != nil {
		return Slot{}, err
	}
	return s.store.Change(ctx, s.change(event, HandedOver, Change{Worker: worker}))
}

// TakeBack is [Scheduler.Cancel] for the worker that a slot was handed over to,
// or is about to be. The worker must know that it will not run the event.
func (s *Scheduler) TakeBack(ctx context.Context, event, worker, reason string) (Slot, error) {
	if err := checkWorker(worker); err != nil {
		return Slot{}, err
	}
	return s.withdraw(ctx, event, Change{Worker: worker, Detail: trim(reason)})
}
