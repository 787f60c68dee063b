package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/schedule"
	enums "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
)

// DefaultTaskQueue is where workflows are started if nothing else is set.
const DefaultTaskQueue = "payment-exec"

// late is how long after its slot a workflow may still be started in it. After
// that it gets another slot, or all that was missed in an outage would start
// at once.
const late = 2 * time.Second

// owner is who slots are handed over to.
const owner = "temporal"

var (
	// ErrCancelled is the answer to starting an event that was cancelled.
	ErrCancelled = errors.New("the event was cancelled")

	// ErrBegun is the answer to cancelling or rescheduling an event whose
	// workflow has begun.
	ErrBegun = errors.New("the workflow has begun")
)

// Config says which workflows a [Starter] starts.
type Config struct {
	// Slots assigns the slots. Dispatchers must not run the same plans.
	Slots *schedule.Scheduler

	// Client is connected to a namespace of Temporal.
	Client client.Client

	// Workflow is the name of the workflow type. Its one argument is the
	// event's payload, if there is any.
	Workflow string

	// Options apply to each workflow, except for the id, the start delay and
	// the policies for ids, which the starter sets. An empty task queue means
	// [DefaultTaskQueue].
	Options client.StartWorkflowOptions
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Client == nil:
		return c, &sluice.FieldError{Field: "client", Reason: "must be set"}
	case c.Workflow == "":
		return c, &sluice.FieldError{Field: "workflow", Reason: "must be the name of a workflow type"}
	}
	if c.Options.TaskQueue == "" {
		c.Options.TaskQueue = DefaultTaskQueue
	}
	return c, nil
}

// execute starts the workflow of an event, if it was never started.
func (c *Config) execute(ctx context.Context, event string, payload json.RawMessage, delay time.Duration) (client.WorkflowRun, error) {
	options := c.Options
	options.ID = event
	options.StartDelay = delay
	options.WorkflowIDReusePolicy = enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	options.WorkflowIDConflictPolicy = enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	options.WorkflowExecutionErrorWhenAlreadyStarted = true
	return c.Client.ExecuteWorkflow(ctx, options, c.Workflow, arguments(payload)...)
}

// Starter starts workflows in two phases: it assigns a slot, then starts the
// workflow with the delay that is left. It is safe for concurrent use, and any
// number of processes may start, cancel and reschedule the same events.
//
// Its calls may be repeated after any error and after a crash: an event keeps
// its slot, and a workflow id is never used twice. What nobody repeats is
// finished by [Starter.Reconcile].
type Starter struct {
	config Config
	slots  *schedule.Scheduler
}

// New returns a starter.
func New(c Config) (*Starter, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if c.Slots == nil {
		return nil, &sluice.FieldError{Field: "slots", Reason: "must be set"}
	}
	return &Starter{config: c, slots: c.Slots}, nil
}

// Start gives an event its slot and starts its workflow, which begins when the
// slot has come. The slot's event is the workflow's id: that of the request, or
// of a successor if the event was rescheduled. An event that was started stays
// as it is.
func (s *Starter) Start(ctx context.Context, r schedule.Request) (schedule.Slot, error) {
	if root, n := generation(r.Event); n > 1 {
		return schedule.Slot{}, &sluice.FieldError{Field: "event", Value: r.Event, Reason: "is the name of a successor of " + root}
	}
	slot, err := s.slots.Assign(ctx, r)
	for err == nil {
		if slot, err = s.start(ctx, slot); !errors.Is(err, ErrCancelled) {
			break
		}
		next, missing := s.slots.Slot(ctx, successor(slot.Event))
		if errors.Is(missing, schedule.ErrNotFound) {
			break
		}
		slot, err = next, missing
	}
	return slot, err
}

// start is the second phase.
func (s *Starter) start(ctx context.Context, slot schedule.Slot) (schedule.Slot, error) {
	switch slot.State {
	case schedule.Done:
		return slot, nil
	case schedule.Cancelled:
		return slot, ErrCancelled
	case schedule.Waiting:
	default:
		return slot, fmt.Errorf("event %q of plan %s is %s: a dispatcher runs it: %w", slot.Event, slot.Plan, slot.State, schedule.ErrConflict)
	}
	now := s.slots.Now()
	if now.Sub(slot.Scheduled) > late {
		return s.startLate(ctx, slot)
	}
	if err := s.replace(ctx, &slot); err != nil {
		return slot, err
	}
	_, err := s.config.execute(ctx, slot.Event, slot.Payload, slot.StartDelay(now))
	if alreadyStarted(err) {
		var info *workflowpb.WorkflowExecutionInfo
		if info, err = s.describe(ctx, slot.Event); err == nil && isShut(info) {
			return s.cancelled(ctx, slot) // who cancelled it has not come to its slot
		}
	}
	if err != nil {
		return slot, err
	}
	return s.handOver(ctx, slot)
}

// cancelled gives back the slot of an event whose workflow never begins.
func (s *Starter) cancelled(ctx context.Context, slot schedule.Slot) (schedule.Slot, error) {
	if _, err := s.slots.TakeBack(ctx, slot.Event, owner, "cancelled"); err != nil {
		return slot, err
	}
	return slot, ErrCancelled
}

// handOver notes that the workflow is there. If the slot was cancelled by
// somebody who could not know of it, the workflow must not begin.
func (s *Starter) handOver(ctx context.Context, slot schedule.Slot) (schedule.Slot, error) {
	handed, err := s.slots.HandOver(ctx, slot.Event, owner)
	if !errors.Is(err, schedule.ErrConflict) {
		return handed, err
	}
	slot, found := s.slots.Slot(ctx, slot.Event)
	if found != nil || slot.State != schedule.Cancelled {
		return slot, errors.Join(err, found)
	}
	if err := s.shut(ctx, slot.Event); err != nil {
		return slot, err
	}
	return slot, ErrCancelled
}

// startLate starts an event whose slot has passed in the next one that is
// free, unless its workflow did begin and only nobody has noted it.
func (s *Starter) startLate(ctx context.Context, slot schedule.Slot) (schedule.Slot, error) {
	moved, err := s.move(ctx, slot, slot.Scheduled)
	if errors.Is(err, ErrBegun) {
		return s.handOver(ctx, slot)
	}
	return moved, err
}

// arguments are those of a workflow.
func arguments(payload json.RawMessage) []any {
	if len(payload) == 0 {
		return nil
	}
	return []any{payload}
}
