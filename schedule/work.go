package schedule

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/sluice-go/sluice/internal/backoff"
	"github.com/sluice-go/sluice/internal/badinput"
)

const (
	defaultLife     = 30 * time.Second
	defaultAttempts = 5
)

var retryPauses = backoff.Pauses{First: time.Second, Max: 5 * time.Minute}

// Offer asks for work: slots of a plan that are due.
type Offer struct {
	Plan   string        // empty means "default"
	Worker string        // who does the work, for the audit log
	Life   time.Duration // how long the claims last unless they are extended; 0 means 30 s
	Max    int           // slots; 1 to 1000, 0 means 100
}

// Work claims slots that are due, for workers that are not a [Dispatcher]: it
// hands out what is due, and leaves it to them how much they start at once. Each
// slot is to be ended with [Scheduler.Complete] or [Scheduler.Fail] before its
// Due, or extended; else it is handed out again. None if nothing is due, or the
// plan is paused or closed. What was handed out five times has failed.
func (s *Scheduler) Work(ctx context.Context, o Offer) ([]Slot, error) {
	o.Plan, o.Life = cmp.Or(o.Plan, DefaultPlan), cmp.Or(o.Life, defaultLife)
	if err := cmp.Or(checkPlanName(o.Plan), checkWorker(o.Worker), checkLife(o.Life)); err != nil {
		return nil, err
	}
	most, err := page("max", o.Max)
	if err != nil {
		return nil, err
	}
	if _, closed, err := s.closed(ctx, o.Plan, o.Worker); err != nil || closed > 0 {
		return nil, err
	}
	now := s.clock.now()
	claimed, err := s.store.Claim(ctx, Claiming{
		Namespace: s.namespace, Plan: o.Plan, Worker: o.Worker, Now: now, Until: now.Add(o.Life), Max: most,
	})
	if err != nil {
		return nil, err
	}
	var slots []Slot
	for i := range claimed {
		if claimed[i].Attempts <= defaultAttempts {
			slots = append(slots, claimed[i])
			continue
		}
		c := s.change(claimed[i].Event, GaveUp, Change{Fence: claimed[i].Fence, Detail: fmt.Sprintf("given up after %d attempts", defaultAttempts)})
		if _, err := s.store.Change(ctx, c); err != nil {
			s.log.Warn("a slot that was tried too often is given up later", "plan", o.Plan, "event", claimed[i].Event, "error", err)
		}
	}
	return slots, nil
}

// closed returns the hours of a plan, and how long until it opens; 0 if it is
// open. A plan that is closed counts as Dispatched all the same.
func (s *Scheduler) closed(ctx context.Context, plan, worker string) (*hours, time.Duration, error) {
	p, err := s.plans.get(ctx, plan)
	if err != nil {
		return nil, 0, err
	}
	now := s.clock.now()
	if p.grid.hours.open(now) {
		return p.grid.hours, 0, nil
	}
	if !p.Plan.Dispatched {
		_, err = s.store.Claim(ctx, Claiming{Namespace: s.namespace, Plan: plan, Worker: worker, Now: now, Until: now})
	}
	opens, _, ok := p.grid.hours.next(now.UnixMicro())
	if !ok {
		opens = forever
	}
	return nil, time.UnixMicro(opens).Sub(now) + time.Microsecond, err
}

func checkLife(life time.Duration) error {
	if life < time.Second || life > 24*time.Hour {
		return badinput.Field("life", life, "must be 1s to 24h")
	}
	return nil
}

// Extend lets the claim on a slot last so long from now, 30 s if life is 0.
// [ErrClaimLost] if somebody else may be working on it.
func (s *Scheduler) Extend(ctx context.Context, event string, fence int64, life time.Duration) error {
	life = cmp.Or(life, defaultLife)
	if err := cmp.Or(checkEvent(event), checkLife(life)); err != nil {
		return err
	}
	lost, err := s.store.Renew(ctx, s.namespace, []Claim{{event, fence}}, s.clock.now().Add(life))
	if err == nil && len(lost) > 0 {
		err = (&Change{Event: event, Fence: fence}).lost()
	}
	return err
}

// Fail notes that an attempt failed. The event is tried again after a second,
// doubling up to 5 minutes, and has failed after five attempts; to end it at
// once, use [Scheduler.Complete]. It may be repeated. [ErrClaimLost] if the
// fence is not the slot's.
func (s *Scheduler) Fail(ctx context.Context, event string, fence int64, reason string) (Slot, error) {
	slot, err := s.Slot(ctx, event)
	if err != nil {
		return Slot{}, err
	}
	c := s.change(event, Retried, Change{Fence: fence, Detail: trim(reason)})
	if slot.Attempts >= defaultAttempts {
		c.Action = GaveUp
	} else {
		c.Due = c.Now.Add(retryPauses.After(slot.Attempts))
	}
	c.Finished = c.Now
	return s.store.Change(ctx, c)
}
