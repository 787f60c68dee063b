package temporal

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/schedule"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
)

// tombstone is the type, and the task queue, of workflows that take the id of
// a cancelled event, so that nobody can start it any more. No worker knows it.
const tombstone = "sluice-cancelled"

// numbered is the name of an event that was rescheduled: of its second
// generation, say, payment-7~2.
var numbered = regexp.MustCompile(`^(.+)~([2-9]|[1-9][0-9]{1,8})$`)

// generation returns the event that was first asked for, and how many slots it
// has had.
func generation(event string) (root string, n int) {
	m := numbered.FindStringSubmatch(event)
	if m == nil {
		return event, 1
	}
	n, _ = strconv.Atoi(m[2]) //nolint:errcheck // they are digits, and few
	return m[1], n
}

func successor(event string) string {
	root, n := generation(event)
	return fmt.Sprintf("%s~%d", root, n+1)
}

// Cancel cancels an event: its workflow never begins, and the room of its slot
// is free again. It is [ErrBegun] if the workflow has begun. An event is
// cancelled before it is started, too, and cancelling twice is no error.
//
// After any other error repeat it: the workflow may be ended while the slot
// still keeps its room.
func (s *Starter) Cancel(ctx context.Context, event, reason string) error {
	slot, err := s.slots.Slot(ctx, event)
	if err != nil {
		return err
	}
	for {
		if err := s.shut(ctx, slot.Event); err != nil {
			return err
		}
		if _, err := s.slots.TakeBack(ctx, slot.Event, owner, reason); err != nil {
			return err
		}
		slot, err = s.slots.Slot(ctx, successor(slot.Event))
		if errors.Is(err, schedule.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Reschedule gives an event another slot, at or after a time, and a workflow
// that begins then. The one it had never begins, or the answer is [ErrBegun].
// The new slot belongs to a successor of the event, payment-7~2 after
// payment-7, as no workflow id is used twice. A cancelled event can be
// rescheduled. Repeating a call that asked for the same time changes nothing.
func (s *Starter) Reschedule(ctx context.Context, event string, at time.Time) (schedule.Slot, error) {
	if at.IsZero() {
		return schedule.Slot{}, &sluice.FieldError{Field: "at", Reason: "must be set"}
	}
	last, err := s.slots.Slot(ctx, event)
	for err == nil {
		var next schedule.Slot
		if next, err = s.slots.Slot(ctx, successor(last.Event)); err == nil {
			last = next
		}
	}
	if !errors.Is(err, schedule.ErrNotFound) || last.Event == "" {
		return schedule.Slot{}, err
	}
	if _, n := generation(last.Event); n > 1 && last.State != schedule.Cancelled && asked(&last, at) {
		return s.start(ctx, last)
	}
	return s.move(ctx, last, at)
}

// move assigns the successor of an event and starts it in place of the event.
func (s *Starter) move(ctx context.Context, slot schedule.Slot, at time.Time) (schedule.Slot, error) {
	next, err := s.slots.Assign(ctx, schedule.Request{Event: successor(slot.Event), Plan: slot.Plan, At: at, Payload: slot.Payload})
	if err != nil {
		return next, err
	}
	if next.Existing && !asked(&next, at) { // somebody else was faster, and wanted another time
		return s.move(ctx, next, at)
	}
	return s.start(ctx, next)
}

// asked reports whether a slot was asked for at a time; slots count in
// microseconds.
func asked(slot *schedule.Slot, at time.Time) bool {
	return slot.Requested.Sub(at).Abs() < time.Microsecond
}

// replace makes sure that no earlier generation of a slot's event begins. If
// one has, the slot is given back.
func (s *Starter) replace(ctx context.Context, slot *schedule.Slot) error {
	root, n := generation(slot.Event)
	for i, event := 1, root; i < n; i, event = i+1, successor(event) {
		err := s.shut(ctx, event)
		if errors.Is(err, ErrBegun) {
			_, back := s.slots.TakeBack(ctx, slot.Event, owner, err.Error())
			return errors.Join(err, back)
		}
		if err == nil {
			_, err = s.slots.TakeBack(ctx, event, owner, "rescheduled as "+slot.Event)
		}
		if err != nil && !errors.Is(err, schedule.ErrNotFound) {
			return err
		}
	}
	return nil
}

// shut makes sure that the workflow of an event never begins, whoever is about
// to start it: it takes the workflow's id, or ends the workflow that waits for
// its time. The answer is [ErrBegun] if it has begun.
func (s *Starter) shut(ctx context.Context, event string) error {
	_, err := s.config.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: event, TaskQueue: tombstone, WorkflowExecutionTimeout: time.Second,
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, tombstone)
	if !alreadyStarted(err) {
		return err
	}
	info, err := s.describe(ctx, event)
	if err != nil {
		return err
	}
	// A workflow that waits for its time has one event: that it was started.
	if info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING && info.GetHistoryLength() == 1 {
		err := s.config.Client.TerminateWorkflow(ctx, event, info.GetExecution().GetRunId(), "cancelled before it began")
		if err != nil && !notFound(err) {
			return err
		}
		if info, err = s.describe(ctx, event); err != nil {
			return err
		}
	}
	if !isShut(info) {
		return fmt.Errorf("event %q: %w", event, ErrBegun)
	}
	return nil
}

// isShut reports whether a workflow never begins: it is a tombstone, or was
// terminated before it began, so that its two events are its start and that.
func isShut(info *workflowpb.WorkflowExecutionInfo) bool {
	return info.GetType().GetName() == tombstone ||
		info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_TERMINATED && info.GetHistoryLength() == 2
}

func (s *Starter) describe(ctx context.Context, event string) (*workflowpb.WorkflowExecutionInfo, error) {
	d, err := s.config.Client.DescribeWorkflowExecution(ctx, event, "")
	return d.GetWorkflowExecutionInfo(), err
}

func alreadyStarted(err error) bool {
	_, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err)
	return ok
}

func notFound(err error) bool {
	_, ok := errors.AsType[*serviceerror.NotFound](err)
	return ok
}
