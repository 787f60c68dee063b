package schedule

import (
	"context"
	"errors"
	"time"
)

// hold keeps the claim on a slot alive until it is let go.
func (d *Dispatcher) hold(s *Slot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active[Claim{Event: s.Event, Fence: s.Fence}] = func(error) {}
}

// onLoss has lost called if a claim that is held is lost. It answers false if
// it is already.
func (d *Dispatcher) onLoss(s *Slot, lost context.CancelCauseFunc) bool {
	c := Claim{Event: s.Event, Fence: s.Fence}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, held := d.active[c]
	if held {
		d.active[c] = lost
	}
	return held
}

// letGo stops keeping a claim alive.
func (d *Dispatcher) letGo(s *Slot) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.active, Claim{Event: s.Event, Fence: s.Fence})
}

// beat renews all claims now and then.
func (d *Dispatcher) beat(ctx context.Context) {
	ticker := time.NewTicker(d.config.Life / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			d.renew(ctx)
		}
	}
}

func (d *Dispatcher) renew(ctx context.Context) {
	d.mu.Lock()
	claims := make([]Claim, 0, len(d.active))
	for c := range d.active {
		claims = append(claims, c)
	}
	d.mu.Unlock()
	if len(claims) == 0 {
		return
	}
	lost, err := d.s.store.Renew(ctx, d.s.namespace, claims, d.s.clock.now().Add(d.config.Life))
	if err != nil {
		if ctx.Err() == nil {
			d.s.log.Warn("claims could not be renewed", "plan", d.config.Plan, "claims", len(claims), "error", err)
		}
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range lost {
		if cancel, ok := d.active[c]; ok { // else it was finished meanwhile
			d.s.log.Warn("the claim on a slot is lost", "plan", d.config.Plan, "event", c.Event, "fence", c.Fence)
			cancel(ErrClaimLost)
			delete(d.active, c)
		}
	}
}

// beginPatience is how long it may take to note that work begins. The start was
// granted, and must not be much later.
const beginPatience = permitSlack / 2

// begin notes that the work may be executed for as long as Life.
func (d *Dispatcher) begin(ctx context.Context, job *Job, started time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, beginPatience)
	defer cancel()
	c := d.s.change(job.Event, Begun, Change{Fence: job.Fence, Due: started.Add(d.config.Life), Started: started})
	for try := 1; ; try++ {
		_, err := d.s.store.Change(ctx, c)
		if err == nil && ctx.Err() == nil {
			return true
		}
		if errors.Is(err, ErrClaimLost) || !contendedPauses.Wait(ctx, try) {
			d.s.log.Warn("work on a slot does not begin, because that could not be noted", "plan", job.Plan, "event", job.Event, "error", err)
			return false
		}
	}
}

// release gives back a slot that was not started.
func (d *Dispatcher) release(ctx context.Context, s *Slot) {
	d.finish(ctx, &Job{Slot: *s}, Released, d.s.clock.now(), "not started")
}

func (d *Dispatcher) finish(ctx context.Context, job *Job, action Action, due time.Time, detail string) {
	d.finishStarted(ctx, job, action, due, detail, time.Time{})
}

// finishStarted ends a claim. It tries for as long as the claim lasts; if
// that fails, the slot is tried again by whoever claims it next.
func (d *Dispatcher) finishStarted(ctx context.Context, job *Job, action Action, due time.Time, detail string, started time.Time) {
	defer d.letGo(&job.Slot)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.config.Life)
	defer cancel()
	c := Change{
		Namespace: d.s.namespace, Event: job.Event, Fence: job.Fence, Action: action, Now: d.s.clock.now(), Due: due,
		Granted: job.Granted, Started: started, Finished: d.s.clock.now(), Detail: detail,
	}
	if started.IsZero() {
		c.Granted, c.Finished = time.Time{}, time.Time{}
	}
	for try := 1; ; try++ {
		_, err := d.s.store.Change(ctx, c)
		if err == nil {
			return
		}
		if errors.Is(err, ErrClaimLost) || !contendedPauses.Wait(ctx, try) {
			d.s.log.Warn("the end of a slot's execution could not be noted; it may run again", "plan", job.Plan, "event", job.Event, "fence", job.Fence, "error", err)
			return
		}
	}
}
