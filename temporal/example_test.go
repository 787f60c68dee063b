package temporal_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/slotstore"
	"github.com/sluice-go/sluice/temporal"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
)

// A payment gets its slot, then a workflow that waits for it; it is put off,
// and in the end not wanted.
func ExampleStarter() {
	dir, err := os.MkdirTemp("", "slots-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	db, err := sqlite.Open(ctx, filepath.Join(dir, "slots.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	slots, err := schedule.New(schedule.Config{Store: slotstore.New(db), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := slots.SetPlan(ctx, schedule.Plan{Name: "payments", MaxPerWindow: 100, WindowSize: 4 * time.Second}); err != nil {
		log.Fatal(err)
	}
	c := shared.GetDefaultClient() // client.Dial(client.Options{HostPort: …, Namespace: …})
	starter, err := temporal.New(temporal.Config{Slots: slots, Client: c, Workflow: "pay"})
	if err != nil {
		log.Fatal(err)
	}

	request := schedule.Request{Event: fmt.Sprint("payment-", time.Now().UnixNano()), Plan: "payments", At: time.Now().Add(time.Hour), Payload: []byte(`{"amount":12}`)}
	show := func(slot schedule.Slot, err error) {
		if err != nil {
			log.Fatal(err)
		}
		d, err := c.DescribeWorkflowExecution(ctx, slot.Event, "")
		if err != nil {
			log.Fatal(err)
		}
		info := d.GetWorkflowExecutionInfo()
		fmt.Printf("payment%s on %s: %s\n", slot.Event[len(request.Event):], info.GetTaskQueue(), info.GetStatus())
	}
	show(starter.Start(ctx, request))
	show(starter.Start(ctx, request)) // is there already
	show(starter.Reschedule(ctx, request.Event, time.Now().Add(2*time.Hour)))
	fmt.Println(starter.Cancel(ctx, request.Event, "not wanted"))
	_, err = starter.Start(ctx, request)
	fmt.Println(err)
	// Output:
	// payment on payment-exec: Running
	// payment on payment-exec: Running
	// payment~2 on payment-exec: Running
	// <nil>
	// the event was cancelled
}

// Activities on any task queue share the bank's limit. A refund costs five
// calls, and what a person waits for goes first.
func ExampleLimit() {
	store, err := memory.Open(memory.Config{}) // one that all workers share, such as Redis
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	bank := sluice.Demand{Key: sluice.Key{Entity: "bank", Limit: "calls"}, Limit: sluice.MustParse("50/s burst 50")}
	limit, err := temporal.Limit(temporal.LimitConfig{
		Limiter: sluice.New(store),
		Take: func(info activity.Info, _ []any) sluice.Take {
			demand := bank
			if info.ActivityType.Name == "refund" {
				demand.Cost = sluice.Tokens(5)
			}
			take := sluice.Take{Demands: []sluice.Demand{demand}, Priority: sluice.Batch}
			if info.TaskQueue == "checkout" {
				take.Priority = sluice.Interactive
			}
			return take
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	w := worker.New(shared.GetDefaultClient(), "checkout", worker.Options{Interceptors: []interceptor.WorkerInterceptor{limit}})
	fmt.Println(w != nil)
	// Output: true
}
