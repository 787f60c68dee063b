package temporal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/temporal"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

var errCut = errors.New("the connection was cut")

// cut is a client whose calls sometimes fail, before they are sent or after
// they were answered: to its caller the same.
type cut struct {
	client.Client
	mu     sync.Mutex
	random *rand.Rand
}

func (c *cut) fails() (before, after bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(8) == 0, c.random.IntN(8) == 0
}

func through[T any](c *cut, call func() (T, error)) (result T, err error) {
	before, after := c.fails()
	if before {
		return result, errCut
	}
	result, err = call()
	if after {
		var none T
		return none, errCut
	}
	return result, err
}

func (c *cut) ExecuteWorkflow(ctx context.Context, o client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error) {
	return through(c, func() (client.WorkflowRun, error) { return c.Client.ExecuteWorkflow(ctx, o, workflow, args...) })
}

func (c *cut) DescribeWorkflowExecution(ctx context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return through(c, func() (*workflowservice.DescribeWorkflowExecutionResponse, error) {
		return c.Client.DescribeWorkflowExecution(ctx, id, run)
	})
}

func (c *cut) TerminateWorkflow(ctx context.Context, id, run, reason string, details ...any) error {
	_, err := through(c, func() (struct{}, error) {
		return struct{}{}, c.Client.TerminateWorkflow(ctx, id, run, reason, details...)
	})
	return err
}

// Several processes start, cancel, reschedule and reconcile the same events,
// over connections that are cut at any moment. What failed is left as it is,
// except that cancelling is repeated in the end.
// After a last reconciliation each event has run at most once, and those slots
// have room that have a workflow.
func TestManyProcessesAndLostAnswers(t *testing.T) {
	const events, processes, steps = 12, 4, 30
	b := open(t, schedule.Plan{MaxPerWindow: 5, WindowSize: time.Second}, nil)
	b.work(t)
	ctx := t.Context()
	seed := rand.Uint64()
	var cancelling sync.Map // events whose cancelling got no answer
	t.Log("seed", seed)

	var working sync.WaitGroup
	for p := range processes {
		config := b.config
		random := rand.New(rand.NewPCG(seed, uint64(p)))
		config.Client = &cut{Client: b.config.Client, random: rand.New(rand.NewPCG(seed, uint64(p+processes)))}
		starter, err := temporal.New(config)
		if err != nil {
			t.Fatal(err)
		}
		working.Go(func() {
			for range steps {
				event := name(t, fmt.Sprint(random.IntN(events)))
				at := time.Now().Add(time.Duration(random.IntN(3000)) * time.Millisecond)
				var err error
				switch random.IntN(8) {
				case 0:
					if err = starter.Cancel(ctx, event, "not wanted"); errors.Is(err, errCut) {
						cancelling.Store(event, nil)
					}
				case 1, 2:
					_, err = starter.Reschedule(ctx, event, at)
				case 3:
					_, err = starter.Reconcile(ctx, schedule.Reconciliation{Plan: "payments", Age: time.Nanosecond})
				default:
					_, err = starter.Start(ctx, schedule.Request{Event: event, Plan: "payments", At: at, Payload: []byte("1")})
				}
				for _, expected := range []error{nil, errCut, temporal.ErrBegun, temporal.ErrCancelled, schedule.ErrNotFound} {
					if errors.Is(err, expected) {
						err = nil
					}
				}
				if err != nil {
					t.Errorf("%s: %v", event, err)
				}
			}
		})
	}
	working.Wait()

	for event := range cancelling.Range {
		if err := b.starter.Cancel(ctx, event.(string), "not wanted"); err != nil && !errors.Is(err, temporal.ErrBegun) {
			t.Error(err)
		}
	}
	for range 2 { // what is rescheduled because it is late is finished by the first
		if _, err := b.starter.Reconcile(ctx, schedule.Reconciliation{Plan: "payments", Age: time.Nanosecond}); err != nil {
			t.Fatal(err)
		}
	}
	began := map[string][]string{}
	room := 0
	for i := range events {
		root := name(t, fmt.Sprint(i))
		for event := root; ; event = successor(event) {
			slot, err := b.slots.Slot(ctx, event)
			if errors.Is(err, schedule.ErrNotFound) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			d, err := b.config.Client.DescribeWorkflowExecution(ctx, event, "")
			if _, none := errors.AsType[*serviceerror.NotFound](err); err != nil && !none {
				t.Fatal(err)
			}
			info := d.GetWorkflowExecutionInfo()
			never := info.GetType().GetName() != "pay" || info.GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_TERMINATED && info.GetHistoryLength() == 2
			if !never {
				began[root] = append(began[root], event)
				room++
			}
			if want := map[bool]schedule.State{true: schedule.Cancelled, false: schedule.Done}[never]; slot.State != want {
				t.Errorf("%s: the slot is %s, and the workflow %s with %d events", event, slot.State, info.GetStatus(), info.GetHistoryLength())
			}
		}
	}
	for event, all := range began {
		if len(all) > 1 {
			t.Errorf("%s was started as %v", event, all)
		}
		for _, one := range all {
			if runs := b.ran(t, one); len(runs) != 1 {
				t.Errorf("%s ran %d times", one, len(runs))
			}
		}
	}
	b.holds(t, room)
	t.Logf("%d of %d events have a workflow", len(began), events)
}

// successor is the name of an event after it was rescheduled.
func successor(event string) string {
	root, n, ok := strings.Cut(event, "~")
	if !ok {
		return event + "~2"
	}
	var number int
	fmt.Sscan(n, &number)
	return fmt.Sprintf("%s~%d", root, number+1)
}
