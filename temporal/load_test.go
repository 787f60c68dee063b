package temporal_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// load is what the workflows of some events cost Temporal.
type load struct{ requests, events int64 }

// TestLoad measures what events that wait cost Temporal until they are done:
// in slots, in workflows that sleep, and in workflows that ask every second
// whether it is their turn. Requests are those that workers and starters send,
// without long polls; events are those of the histories.
func TestLoad(t *testing.T) {
	const events, polls = 5, 10
	b := open(t, second, nil)
	c, queue := b.config.Client, b.config.Options.TaskQueue
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(func(workflow.Context) error { return nil }, workflow.RegisterOptions{Name: "pay"})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		return workflow.Sleep(ctx, polls*time.Second)
	}, workflow.RegisterOptions{Name: "sleep"})
	w.RegisterActivityWithOptions(func(_ context.Context, asked int) (bool, error) { return asked == polls, nil }, activity.RegisterOptions{Name: "turn"})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		for asked, mine := 1, false; ; asked++ {
			if err := workflow.ExecuteActivity(ctx, "turn", asked).Get(ctx, &mine); err != nil || mine {
				return err
			}
			if err := workflow.Sleep(ctx, time.Second); err != nil {
				return err
			}
		}
	}, workflow.RegisterOptions{Name: "poll"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)

	measure := func(start func(event string) error) (cost load) {
		t.Helper()
		before := requests.snapshot()
		name := func(i int) string { return fmt.Sprintf("%s/%d/%d", t.Name(), before["StartWorkflowExecution"], i) }
		for i := range events {
			if err := start(name(i)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range events {
			if err := c.GetWorkflow(t.Context(), name(i), "").Get(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		for method, n := range requests.snapshot() {
			if strings.HasPrefix(method, "Start") || strings.HasPrefix(method, "Respond") {
				cost.requests += int64(n - before[method])
			}
		}
		for i := range events {
			cost.events += b.describe(t, name(i)).GetHistoryLength()
		}
		return cost
	}
	at := time.Now().Add(2 * time.Second)
	slots := measure(func(event string) error {
		_, err := b.starter.Start(t.Context(), schedule.Request{Event: event, Plan: "payments", At: at})
		return err
	})
	plain := func(kind string) func(string) error {
		return func(event string) error {
			_, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: event, TaskQueue: queue}, kind)
			return err
		}
	}
	sleep, poll := measure(plain("sleep")), measure(plain("poll"))
	t.Logf("for each event: slots %+v, sleep %+v, %d polls %+v",
		load{slots.requests / events, slots.events / events}, load{sleep.requests / events, sleep.events / events}, polls,
		load{poll.requests / events, poll.events / events})
	if slots != (load{2 * events, 5 * events}) {
		t.Errorf("slots cost %+v for %d events; want a start, one workflow task and its five history events each", slots, events)
	}
	if sleep.events <= slots.events || poll.events < polls*10*events || poll.requests < polls*2*events {
		t.Errorf("sleeping costs %+v and polling %+v", sleep, poll)
	}
}
