package temporal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/temporal"
	enums "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
)

var second = schedule.Plan{MaxPerWindow: 100, WindowSize: time.Second}

func request(t *testing.T, event string, at time.Time) schedule.Request {
	return schedule.Request{Event: name(t, event), Plan: "payments", At: at, Payload: []byte(`{"amount":12}`)}
}

func (b *bench) start(t *testing.T, r schedule.Request) schedule.Slot {
	t.Helper()
	slot, err := b.starter.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

func (b *bench) describe(t *testing.T, event string) *workflowpb.WorkflowExecutionInfo {
	t.Helper()
	d, err := b.config.Client.DescribeWorkflowExecution(t.Context(), event, "")
	if err != nil {
		t.Fatalf("%s: %v", event, err)
	}
	return d.GetWorkflowExecutionInfo()
}

// waits checks that the workflow of a slot waits for the slot's time.
func (b *bench) waits(t *testing.T, slot schedule.Slot) {
	t.Helper()
	info := b.describe(t, slot.Event)
	if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING || info.GetHistoryLength() != 1 {
		t.Errorf("%s is %s with %d events, and does not wait", slot.Event, info.GetStatus(), info.GetHistoryLength())
	}
	// The delay was computed before Temporal counted it.
	if begins := info.GetExecutionTime().AsTime(); begins.Before(slot.Scheduled) {
		t.Errorf("%s begins at %s, before its slot at %s", slot.Event, begins, slot.Scheduled)
	}
}

// neverBegan checks that the workflow of an event was ended before it began.
func (b *bench) neverBegan(t *testing.T, event string) {
	t.Helper()
	info := b.describe(t, event)
	if info.GetType().GetName() == "pay" && (info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_TERMINATED || info.GetHistoryLength() != 2) {
		t.Errorf("%s is %s with %d events", event, info.GetStatus(), info.GetHistoryLength())
	}
}

func (b *bench) state(t *testing.T, event string, want schedule.State) {
	t.Helper()
	if slot, err := b.slots.Slot(t.Context(), event); err != nil || slot.State != want {
		t.Errorf("%s: %v, the slot is %s, want %s", event, err, slot.State, want)
	}
}

func (b *bench) holds(t *testing.T, events int) {
	t.Helper()
	if n := b.used(t); n != events {
		t.Errorf("the windows have %d events, want %d", n, events)
	}
}

func TestAWorkflowBeginsInItsSlotWithItsPayload(t *testing.T) {
	b := open(t, second, nil)
	b.work(t)
	at := time.Now().Add(2 * time.Second)
	slot := b.start(t, request(t, "a", at))
	if slot.State != schedule.Done || slot.Scheduled.Before(at) {
		t.Errorf("%+v", slot)
	}
	runs := b.ran(t, slot.Event)
	if len(runs) != 1 || runs[0].payload != `{"amount":12}` || runs[0].began.Before(slot.Scheduled) {
		t.Errorf("%+v ran, in the slot at %s", runs, slot.Scheduled)
	}
	again := b.start(t, request(t, "a", at))
	if !again.Scheduled.Equal(slot.Scheduled) || len(b.ran(t, slot.Event)) != 1 {
		t.Errorf("started again: %+v", again)
	}
	b.holds(t, 1)
}

func TestANewStarterNeedsItsParts(t *testing.T) {
	b := open(t, second, nil)
	for _, spoil := range []func(*temporal.Config){
		func(c *temporal.Config) { c.Slots = nil },
		func(c *temporal.Config) { c.Client = nil },
		func(c *temporal.Config) { c.Workflow = "" },
	} {
		c := b.config
		spoil(&c)
		if _, err := temporal.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	if _, err := b.starter.Start(t.Context(), request(t, "a~2", time.Time{})); err == nil {
		t.Error("an event may be named like a successor")
	}
}

// The process dies after either phase. Somebody repeats the call, or nobody
// does and reconciliation finishes it.
func TestACrashBetweenThePhases(t *testing.T) {
	finish := map[string]func(*testing.T, *bench, schedule.Request){
		"repeated": func(t *testing.T, b *bench, r schedule.Request) { b.start(t, r) },
		"reconciled": func(t *testing.T, b *bench, _ schedule.Request) {
			report, err := b.starter.Reconcile(t.Context(), schedule.Reconciliation{Plan: "payments", Age: time.Nanosecond})
			if err != nil || report.Looked != 1 || report.Reclaimed != 0 {
				t.Errorf("%v: %+v", err, report)
			}
		},
	}
	for name, finish := range finish {
		for _, phase := range []string{"slot", "workflow"} {
			t.Run(name+" after the "+phase, func(t *testing.T) {
				b := open(t, second, nil)
				r := request(t, "a", time.Now().Add(time.Hour))
				slot, err := b.slots.Assign(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if phase == "workflow" {
					b.execute(t, slot)
				}
				report, err := b.starter.Reconcile(t.Context(), schedule.Reconciliation{Plan: "payments", Age: time.Nanosecond, DryRun: true})
				if leaked := map[string]int{"slot": 1, "workflow": 0}[phase]; err != nil || report.Looked != 1 || len(report.Leaked) != leaked {
					t.Errorf("dry run: %v: %+v, want %d without a workflow", err, report, leaked)
				}
				b.state(t, slot.Event, schedule.Waiting)
				finish(t, b, r)
				b.waits(t, slot)
				b.state(t, slot.Event, schedule.Done)
				b.holds(t, 1)
			})
		}
	}
}

// execute starts the workflow of a slot as a starter does, and then the
// process dies.
func (b *bench) execute(t *testing.T, slot schedule.Slot) {
	t.Helper()
	_, err := b.config.Client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: slot.Event, TaskQueue: b.config.Options.TaskQueue, StartDelay: slot.StartDelay(time.Now()),
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, "pay", slot.Payload)
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsStartedLateGetsAnotherSlot(t *testing.T) {
	var clock offset
	b := open(t, second, clock.now)
	r := request(t, "a", time.Now())
	slot, err := b.slots.Assign(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Hour)
	moved := b.start(t, r)
	if moved.Event != slot.Event+"~2" || moved.Scheduled.Before(slot.Scheduled.Add(time.Hour-time.Minute)) {
		t.Errorf("%+v", moved)
	}
	b.neverBegan(t, slot.Event)
	b.state(t, slot.Event, schedule.Cancelled)
	if again := b.start(t, r); again.Event != moved.Event {
		t.Errorf("again: %+v", again)
	}

	// What did begin, and only was not handed over, stays where it is.
	begun := request(t, "b", clock.now())
	slot, err = b.slots.Assign(t.Context(), begun)
	if err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Hour)
	slot.Scheduled = time.Now()
	b.execute(t, slot)
	if got := b.start(t, begun); got.Event != slot.Event || got.State != schedule.Done {
		t.Errorf("%+v", got)
	}
	b.state(t, slot.Event+"~2", schedule.Cancelled)
}

func TestCancelling(t *testing.T) {
	b := open(t, second, nil)
	at := time.Now().Add(time.Hour)
	cancel := func(event string) error {
		err := b.starter.Cancel(t.Context(), event, "not wanted")
		if again := b.starter.Cancel(t.Context(), event, "not wanted"); errors.Is(again, temporal.ErrBegun) != errors.Is(err, temporal.ErrBegun) {
			t.Errorf("%s: cancelled: %v, and again: %v", event, err, again)
		}
		return err
	}

	// Before the workflow: who is between the phases does not start it.
	r := request(t, "early", at)
	slot, err := b.slots.Assign(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := cancel(slot.Event); err != nil {
		t.Error(err)
	}
	if _, err := b.starter.Start(t.Context(), r); !errors.Is(err, temporal.ErrCancelled) {
		t.Errorf("started though cancelled: %v", err)
	}
	b.neverBegan(t, slot.Event)

	// While the workflow waits.
	r = request(t, "waiting", at)
	slot = b.start(t, r)
	if err := cancel(slot.Event); err != nil {
		t.Error(err)
	}
	b.neverBegan(t, slot.Event)
	b.state(t, slot.Event, schedule.Cancelled)
	if _, err := b.starter.Start(t.Context(), r); !errors.Is(err, temporal.ErrCancelled) {
		t.Errorf("started though cancelled: %v", err)
	}

	// By somebody who only knows the slot, while its starter is between the
	// phases.
	r = request(t, "unaware", at)
	if slot, err = b.slots.Assign(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	b.execute(t, slot)
	if _, err := b.slots.Cancel(t.Context(), slot.Event, "not wanted"); err != nil {
		t.Fatal(err)
	}
	if err := cancel(slot.Event); err != nil {
		t.Error(err)
	}
	b.neverBegan(t, slot.Event)
	b.holds(t, 0)

	// Too late.
	slot = b.start(t, request(t, "begun", time.Time{}))
	b.work(t)
	b.ran(t, slot.Event)
	if err := cancel(slot.Event); !errors.Is(err, temporal.ErrBegun) {
		t.Errorf("cancelled though begun: %v", err)
	}
	b.state(t, slot.Event, schedule.Done)
	b.holds(t, 1)
	if err := b.starter.Cancel(t.Context(), "nobody", ""); !errors.Is(err, schedule.ErrNotFound) {
		t.Error(err)
	}
}

func TestRescheduling(t *testing.T) {
	b := open(t, second, nil)
	soon, later, latest := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour), time.Now().Add(3*time.Hour)
	move := func(event string, at time.Time) schedule.Slot {
		t.Helper()
		var slot schedule.Slot
		for range 2 { // the second time it is there already
			var err error
			if slot, err = b.starter.Reschedule(t.Context(), event, at); err != nil {
				t.Fatal(err)
			}
			if slot.Scheduled.Before(at) || slot.State != schedule.Done || string(slot.Payload) != `{"amount":12}` {
				t.Errorf("%+v", slot)
			}
		}
		b.waits(t, slot)
		return slot
	}

	r := request(t, "a", soon)
	first := b.start(t, r)
	if second := move(first.Event, later); second.Event != first.Event+"~2" {
		t.Errorf("%+v", second)
	}
	b.neverBegan(t, first.Event)
	b.state(t, first.Event, schedule.Cancelled)
	third := move(first.Event, latest)
	if third.Event != first.Event+"~3" {
		t.Errorf("%+v", third)
	}
	b.neverBegan(t, first.Event+"~2")
	if again := b.start(t, r); again.Event != third.Event {
		t.Errorf("asked again: %+v", again)
	}
	b.holds(t, 1)

	if err := b.starter.Cancel(t.Context(), first.Event, ""); err != nil {
		t.Error(err)
	}
	b.neverBegan(t, third.Event)
	b.holds(t, 0)
	if fourth := move(first.Event, latest); fourth.Event != first.Event+"~4" {
		t.Errorf("revived as %+v", fourth)
	}
	b.holds(t, 1)

	// What has begun stays, and no room is lost.
	begun := b.start(t, request(t, "begun", time.Time{}))
	b.work(t)
	b.ran(t, begun.Event)
	for range 2 {
		if _, err := b.starter.Reschedule(t.Context(), begun.Event, later); !errors.Is(err, temporal.ErrBegun) {
			t.Errorf("rescheduled though begun: %v", err)
		}
	}
	b.state(t, begun.Event, schedule.Done)
	b.holds(t, 2)
	if _, err := b.starter.Reschedule(t.Context(), "nobody", later); !errors.Is(err, schedule.ErrNotFound) {
		t.Error(err)
	}
	if _, err := b.starter.Reschedule(t.Context(), begun.Event, time.Time{}); err == nil {
		t.Error("rescheduled to no time")
	}
}

// A process dies while it reschedules: there is a second slot, and the first
// workflow still waits.
func TestACrashWhileRescheduling(t *testing.T) {
	b := open(t, second, nil)
	first := b.start(t, request(t, "a", time.Now().Add(time.Hour)))
	next, err := b.slots.Assign(t.Context(), schedule.Request{Event: first.Event + "~2", Plan: "payments", At: time.Now().Add(2 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.starter.Reconcile(t.Context(), schedule.Reconciliation{Plan: "payments", Age: time.Nanosecond}); err != nil {
		t.Fatal(err)
	}
	b.neverBegan(t, first.Event)
	b.state(t, first.Event, schedule.Cancelled)
	b.waits(t, next)
	b.state(t, next.Event, schedule.Done)
	b.holds(t, 1)
}

// A process dies while it cancels an event that was not started: the id is
// taken, and the slot still waits. Nothing is told to be started then.
func TestACrashWhileCancelling(t *testing.T) {
	b := open(t, second, nil)
	r := request(t, "a", time.Now().Add(time.Hour))
	slot, err := b.slots.Assign(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	b.execute(t, slot)
	if err := b.config.Client.TerminateWorkflow(t.Context(), slot.Event, "", "cancelled before it began"); err != nil {
		t.Fatal(err)
	}
	if got, err := b.starter.Start(t.Context(), r); !errors.Is(err, temporal.ErrCancelled) {
		t.Errorf("%v: %+v", err, got)
	}
	b.state(t, slot.Event, schedule.Cancelled)
	b.holds(t, 0)
}
