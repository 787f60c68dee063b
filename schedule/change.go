package schedule

import (
	"fmt"
	"time"
)

// Change changes the slot of an event. What it does depends on its action:
//
//   - Claimed and Confirmed claim the slot for a worker until Due, or until the
//     claim is ended if that is zero. Confirmed needs a slot that is waiting;
//     repeated by the same worker it changes nothing.
//   - Finished, Retried, GaveUp and Released end the claim with that fence, or
//     are [ErrClaimLost]. After Retried and Released the slot is due again.
//     Repeating one of them changes nothing.
//   - Begun notes, before the work begins, that it may have been executed. The
//     claim with that fence does not run out any more. Until Due the work may be
//     under way; from then on the slot is [Unknown], unless the claim is ended.
//     After Doubted it is at once.
//   - HandedOver ends a slot that nobody has claimed, for Worker to run its
//     event. Repeating it changes nothing.
//   - Withdrawn cancels a slot that is waiting, has failed, is leaked or unknown,
//     or was handed over to Worker. One that is cancelled stays so.
//   - Requeued has a slot that has failed, or is unknown, wait again, as if it had never been
//     tried, until Due. One that waits already stays as it is.
//   - Reclaimed gives the room of a slot back that is waiting and was never
//     claimed. The slot stays, as leaked. The store refuses it for a plan that is
//     paused or dispatched.
//   - Purged removes a slot that is leaked.
//
// What contradicts the slot's state is [ErrConflict].
type Change struct {
	Namespace string
	Event     string
	Action    Action
	Now       time.Time
	Fence     int64
	Worker    string
	Due       time.Time
	Granted   time.Time
	Started   time.Time
	Finished  time.Time
	Detail    string
}

// Missing is the error if there is no slot.
func (c *Change) Missing() error {
	if c.ends() {
		return c.lost()
	}
	return notFound("event", c.Event)
}

func (c *Change) ends() bool {
	return c.Action == Finished || c.Action == Retried || c.Action == GaveUp || c.Action == Released
}

// repeats reports whether the claim was ended in this way before, and nobody has
// claimed the slot since: whoever ended it did not hear the answer.
func (c *Change) repeats(s *Slot) bool {
	state := map[Action]State{Finished: Done, GaveUp: Failed, Retried: Waiting, Released: Waiting}[c.Action]
	return c.Fence != 0 && s.Fence == c.Fence && s.State == state
}

func (c *Change) lost() error {
	return fmt.Errorf("event %q, fence %d: %w", c.Event, c.Fence, ErrClaimLost)
}

// Apply changes a slot and returns what to add to the audit log, without the
// plan. room reports whether the slot's window has one event fewer.
func (c *Change) Apply(s *Slot) (entries []Entry, room bool, err error) {
	conflict := func(what string) error {
		return fmt.Errorf("event %q is %s, %s: %w", c.Event, s.State, what, ErrConflict)
	}
	e := Entry{
		Time: c.Now, Event: c.Event, Action: c.Action, Scheduled: s.Scheduled,
		Granted: c.Granted, Started: c.Started, Finished: c.Finished, Detail: c.Detail,
	}
	switch {
	case c.Action == Withdrawn && s.State == Cancelled:
		return nil, false, nil
	case c.Action == Withdrawn:
		if s.State != Waiting && s.State != Failed && s.State != Leaked && !s.settleable(c.Now) && !s.handedTo(c.Worker) {
			return nil, false, conflict("too late to cancel")
		}
		room = s.State != Failed && s.State != Leaked && s.State != Unknown // which have used it, or given it back
		s.State, s.Due = Cancelled, time.Time{}
		return []Entry{e}, room, nil
	case c.Action == Requeued && s.State == Waiting:
		return nil, false, nil
	case c.Action == Requeued:
		if s.State != Failed && !s.settleable(c.Now) {
			return nil, false, conflict("has not failed")
		}
		s.State, s.Attempts, s.Due = Waiting, 0, c.Due
	case c.Action == HandedOver && s.handedTo(c.Worker):
		return nil, false, nil
	case c.Action == HandedOver:
		if s.State != Waiting || s.Fence != 0 {
			return nil, false, conflict("too late to hand it over")
		}
		s.State, s.Worker, s.Due = Done, c.Worker, time.Time{}
	case c.Action == Reclaimed:
		if s.State != Waiting || s.Fence != 0 {
			return nil, false, fmt.Errorf("event %q has started: %w", c.Event, ErrConflict)
		}
		s.State, s.Due = Leaked, time.Time{}
		return []Entry{e}, true, nil
	case c.Action == Purged:
		if s.State != Leaked {
			return nil, false, conflict("not leaked")
		}
		return []Entry{e}, false, nil
	case s.State == Unknown && s.Fence == c.Fence && (c.Action == Begun || c.Action == Doubted && s.settleable(c.Now)):
		return nil, false, nil
	case c.Action == Begun || c.Action == Doubted:
		if !s.claimed(c.Fence) {
			return nil, false, c.lost()
		}
		s.State, s.Due = Unknown, c.Due
	case c.ends() && c.repeats(s):
		return nil, false, nil
	case c.ends():
		if !s.claimed(c.Fence) {
			return nil, false, c.lost()
		}
		s.State, s.Due = Waiting, c.Due
		switch c.Action {
		case Finished:
			s.State, s.Due = Done, time.Time{}
		case GaveUp:
			s.State, s.Due = Failed, time.Time{}
		case Released:
			s.Attempts--
		}
	case c.Action == Confirmed && s.State == Running && s.Due.IsZero() && s.Worker == c.Worker:
		return nil, false, nil
	case c.Action == Confirmed && s.State != Waiting:
		return nil, false, conflict("not waiting")
	default:
		if s.State == Running {
			entries = append(entries, Entry{
				Time: c.Now, Event: c.Event, Action: Lost, Attempt: s.Attempts, Fence: s.Fence, Worker: s.Worker, Scheduled: s.Scheduled,
			})
		}
		s.State, s.Worker, s.Due = Running, c.Worker, c.Due
		s.Attempts++
		s.Fence++
	}
	e.Attempt, e.Fence, e.Worker = s.Attempts, s.Fence, s.Worker
	return append(entries, e), false, nil
}

// claimed reports whether the claim with that fence has not ended.
func (s *Slot) claimed(fence int64) bool {
	return (s.State == Running || s.State == Unknown) && s.Fence == fence
}

// settleable reports whether nobody knows how the slot ended, and it is not under
// way any more.
func (s *Slot) settleable(now time.Time) bool { return s.State == Unknown && !s.Due.After(now) }

// handedTo reports whether the slot was handed over to a worker: it is done, and
// was never claimed.
func (s *Slot) handedTo(worker string) bool {
	return s.State == Done && s.Fence == 0 && s.Worker == worker
}
