package temporal_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/temporal"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func limiter(t *testing.T) *sluice.Limiter {
	t.Helper()
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return sluice.New(store)
}

// charge takes a cost, the activity's argument, from one bucket for all.
func charge(limit string) func(activity.Info, []any) sluice.Take {
	return func(_ activity.Info, args []any) sluice.Take {
		return sluice.Take{Demands: []sluice.Demand{{
			Key: sluice.Key{Entity: "bank", Limit: "calls"}, Limit: sluice.MustParse(limit), Cost: sluice.Tokens(int64(args[0].(int))),
		}}}
	}
}

// employ runs a worker on a task queue, whose activity counts its runs.
func employ(t *testing.T, queue string, config temporal.LimitConfig, runs *atomic.Int64) {
	t.Helper()
	limit, err := temporal.Limit(config)
	if err != nil {
		t.Fatal(err)
	}
	w := worker.New(shared.GetDefaultClient(), queue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{limit}})
	w.RegisterActivityWithOptions(func(context.Context, int) error { runs.Add(1); return nil }, activity.RegisterOptions{Name: "call"})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, cost int) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, "call", cost).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "caller"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
}

func call(t *testing.T, queue string, cost int) client.WorkflowRun {
	t.Helper()
	started, err := shared.GetDefaultClient().ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: queue}, "caller", cost)
	if err != nil {
		t.Fatal(err)
	}
	return started
}

// Two fleets on two task queues, each with a limiter of its own on one store,
// share a limit: with costs.
func TestOneLimitOverManyQueues(t *testing.T) {
	shared, tokens := limiter(t), 0
	var runs atomic.Int64
	queues := []string{t.Name() + "-a", t.Name() + "-b"}
	for _, queue := range queues {
		employ(t, queue, temporal.LimitConfig{Limiter: shared, Take: charge("10/h burst 10"), Patience: -1}, &runs)
	}
	var done []client.WorkflowRun
	for i, cost := range []int{4, 1, 3, 2} { // all there is
		done = append(done, call(t, queues[i%2], cost))
		tokens += cost
	}
	for _, run := range done {
		if err := run.Get(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	if runs.Load() != 4 || tokens != 10 {
		t.Errorf("%d ran, for %d tokens", runs.Load(), tokens)
	}
	for _, queue := range queues {
		pending(t, call(t, queue, 1), 1)
	}
	if runs.Load() != 4 {
		t.Error("ran without tokens")
	}
}

// pending waits until the activity of a run was put off for at least so many
// minutes, and checks that no worker has it.
func pending(t *testing.T, run client.WorkflowRun, minutes int) {
	t.Helper()
	for {
		d, err := shared.GetDefaultClient().DescribeWorkflowExecution(t.Context(), run.GetID(), run.GetRunID())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range d.GetPendingActivities() {
			if failure := a.GetLastFailure(); failure != nil {
				if failure.GetApplicationFailureInfo().GetType() != temporal.RateLimited {
					t.Errorf("%v", failure)
				}
				if at := a.GetNextAttemptScheduleTime().AsTime(); time.Until(at) < time.Duration(minutes)*time.Minute {
					t.Errorf("tried again at %s, too soon", at)
				}
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestAShortWaitIsInLineAndALongOneIsPutOff(t *testing.T) {
	var runs atomic.Int64
	employ(t, t.Name(), temporal.LimitConfig{Limiter: limiter(t), Take: charge("50/s burst 1"), Patience: time.Minute}, &runs)
	var all []client.WorkflowRun
	for range 20 {
		all = append(all, call(t, t.Name(), 1))
	}
	for _, run := range all {
		if err := run.Get(t.Context(), nil); err != nil {
			t.Error(err)
		}
		events := shared.GetDefaultClient().GetWorkflowHistory(t.Context(), run.GetID(), run.GetRunID(), false, 1)
		for events.HasNext() {
			event, err := events.Next()
			if err != nil {
				t.Fatal(err)
			}
			if n := event.GetActivityTaskStartedEventAttributes().GetAttempt(); n > 1 {
				t.Errorf("attempt %d", n)
			}
		}
	}
}

func TestACostThatCanNeverPassFailsForGood(t *testing.T) {
	var runs atomic.Int64
	employ(t, t.Name(), temporal.LimitConfig{Limiter: limiter(t), Take: charge("10/h burst 10")}, &runs)
	err := call(t, t.Name(), 11).Get(t.Context(), nil)
	failure, ok := errors.AsType[*sdk.ApplicationError](err)
	if !ok || failure.Type() != temporal.RateLimited || !failure.NonRetryable() || runs.Load() != 0 {
		t.Errorf("%v, %d ran", err, runs.Load())
	}
}

func TestActivitiesWithoutDemandsAreNotLimited(t *testing.T) {
	var runs atomic.Int64
	employ(t, t.Name(), temporal.LimitConfig{
		Limiter: limiter(t), Take: func(activity.Info, []any) sluice.Take { return sluice.Take{} },
	}, &runs)
	if err := call(t, t.Name(), 1).Get(t.Context(), nil); err != nil || runs.Load() != 1 {
		t.Errorf("%v, %d ran", err, runs.Load())
	}
	for _, c := range []temporal.LimitConfig{{Limiter: limiter(t)}, {Take: charge("1/s")}} {
		if _, err := temporal.Limit(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
