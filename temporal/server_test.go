package temporal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/slotstore"
	"github.com/sluice-go/sluice/temporal"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	server "go.temporal.io/server/temporal"
	"go.temporal.io/server/temporaltest"
	"google.golang.org/grpc"
)

var quiet = log.NewStructuredLogger(slog.New(slog.DiscardHandler))

// requests counts what the server was asked, by method.
var requests = calls{counts: map[string]int{}}

type calls struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *calls) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
	c.mu.Lock()
	c.counts[method]++
	c.mu.Unlock()
	return handle(ctx, request)
}

// snapshot returns the counts so far.
func (c *calls) snapshot() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// shared is the server that the tests share. Each has its own task queue and
// events.
var shared *temporaltest.TestServer

func TestMain(m *testing.M) {
	shared = temporaltest.NewServer(
		temporaltest.WithBaseClientOptions(client.Options{Logger: quiet}),
		temporaltest.WithBaseServerOptions(server.WithChainedFrontendGrpcInterceptors(requests.intercept)),
	)
	code := m.Run()
	shared.Stop()
	os.Exit(code)
}

// bench is what one test needs: slots, and a worker that notes what ran.
type bench struct {
	slots   *schedule.Scheduler
	starter *temporal.Starter
	config  temporal.Config

	mu   sync.Mutex
	runs []run
}

// run is one run of a workflow.
type run struct {
	event   string
	payload string
	began   time.Time
}

// offset moves the time of the slots.
type offset struct {
	mu sync.Mutex
	by time.Duration
}

func (o *offset) now() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Now().Add(o.by)
}

func (o *offset) advance(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.by += d
}

// opened counts benches, so that events have other names when a test runs again.
var opened atomic.Int64

func name(t *testing.T, event string) string {
	return fmt.Sprintf("%s/%d/%s", t.Name(), opened.Load(), event)
}

// open returns a bench with a plan.
func open(t *testing.T, plan schedule.Plan, clock func() time.Time) *bench {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "slots.db"))
	if err != nil {
		t.Fatal(err)
	}
	store := slotstore.New(db)
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	slots, err := schedule.New(schedule.Config{Store: store, Log: slog.New(slog.DiscardHandler), Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	opened.Add(1)
	plan.Name = "payments"
	if _, err := slots.SetPlan(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	b := &bench{slots: slots, config: temporal.Config{
		Slots: slots, Client: shared.GetDefaultClient(), Workflow: "pay",
		Options: client.StartWorkflowOptions{TaskQueue: name(t, "queue")},
	}}
	if b.starter, err = temporal.New(b.config); err != nil {
		t.Fatal(err)
	}
	return b
}

// work has a worker run the workflows of b until the test ends.
func (b *bench) work(t *testing.T) {
	t.Helper()
	w := worker.New(shared.GetDefaultClient(), b.config.Options.TaskQueue, worker.Options{MaxConcurrentWorkflowTaskPollers: 4})
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, payload json.RawMessage) error {
		if !workflow.IsReplaying(ctx) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.runs = append(b.runs, run{workflow.GetInfo(ctx).WorkflowExecution.ID, string(payload), workflow.Now(ctx)})
		}
		return nil
	}, workflow.RegisterOptions{Name: "pay"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
}

// ran returns the runs of an event after its workflow has ended.
func (b *bench) ran(t *testing.T, event string) []run {
	t.Helper()
	if err := b.config.Client.GetWorkflow(t.Context(), event, "").Get(t.Context(), nil); err != nil {
		t.Fatalf("%s: %v", event, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var runs []run
	for _, r := range b.runs {
		if r.event == event {
			runs = append(runs, r)
		}
	}
	return runs
}

// used is how many events the windows of the plan have.
func (b *bench) used(t *testing.T) (n int) {
	t.Helper()
	h, err := b.slots.Load(t.Context(), "payments", time.Now().Add(-time.Hour), time.Hour, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, bar := range h.Bars {
		n += bar.Events
	}
	return n
}
