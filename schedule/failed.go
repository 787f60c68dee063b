package schedule

import (
	"context"
	"time"
)

// Failed lists the slots of a plan that have failed, in order of their time.
func (s *Scheduler) Failed(ctx context.Context, plan string, after Position, max int) (SlotPage, error) {
	return s.page(ctx, Selection{Plan: plan, Order: GivenUp, After: after, Max: max})
}

// InDoubt lists the slots of a plan that are [Unknown], in order of their time.
// Each can be settled by whoever finds out what happened: [Scheduler.Complete]
// with the slot's fence, [Scheduler.Requeue] or [Scheduler.Cancel].
func (s *Scheduler) InDoubt(ctx context.Context, plan string, after Position, max int) (SlotPage, error) {
	return s.page(ctx, Selection{Plan: plan, Order: InDoubt, To: s.clock.now(), After: after, Max: max})
}

// Requeue has the event of a slot that has failed, or is [Unknown], tried again, at
// once, as if it had never been tried. An event whose slot is leaked is assigned again, with the
// payload that it had. Requeuing twice is no error; a slot that is running, done
// or cancelled is [ErrConflict].
func (s *Scheduler) Requeue(ctx context.Context, event, reason string) (Slot, error) {
	slot, err := s.Slot(ctx, event)
	if err != nil {
		return Slot{}, err
	}
	if slot.State == Leaked {
		return s.Assign(ctx, Request{Event: event, Plan: slot.Plan, At: slot.Requested, Payload: slot.Payload})
	}
	return s.requeue(ctx, event, reason)
}

func (s *Scheduler) requeue(ctx context.Context, event, reason string) (Slot, error) {
	return s.store.Change(ctx, s.change(event, Requeued, Change{Due: s.clock.now(), Detail: trim(reason)}))
}

// RequeueFailed requeues all slots of a plan that have failed before this call,
// and returns how many.
func (s *Scheduler) RequeueFailed(ctx context.Context, plan, reason string) (requeued int, err error) {
	for after := (Position{}); ; {
		page, err := s.Failed(ctx, plan, after, maxPage)
		if err != nil {
			return requeued, err
		}
		for i := range page.Slots {
			switch _, err := s.requeue(ctx, page.Slots[i].Event, reason); {
			case gone(err): // somebody else was faster
			case err != nil:
				return requeued, err
			default:
				requeued++
			}
		}
		if page.Next == nil {
			return requeued, nil
		}
		after = *page.Next
	}
}

// breaker stops a dispatcher from trying one slot after the other while what it
// calls is down. It opens after several failures in a row. Then one slot at a
// time is tried, with pauses that grow, until one succeeds.
type breaker struct {
	after    int // failures in a row
	failures int
	opened   int       // probes that failed since it opened, and the first
	until    time.Time // when the next probe may start
}

const (
	breakerFirst = time.Second
	breakerMax   = time.Minute
)

// open reports whether only probes may start, and how long until the next.
func (b *breaker) open(now time.Time) (wait time.Duration, open bool) {
	return b.until.Sub(now), b.opened > 0
}

// saw counts how an attempt ended that was a failure of what it called, or not.
// It reports whether the breaker is open, and whether it has just changed.
func (b *breaker) saw(failed bool, now time.Time) (open, changed bool) {
	was := b.opened > 0
	if !failed {
		b.failures, b.opened = 0, 0
		return false, was
	}
	if b.failures++; b.failures >= b.after && !now.Before(b.until) { // those in flight count once
		b.until = now.Add(min(breakerFirst<<min(b.opened, 10), breakerMax))
		b.opened++
	}
	return b.opened > 0, !was && b.opened > 0
}
