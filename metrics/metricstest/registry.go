// Package metricstest is a node with everything that has metrics, for tests of
// their names and of what is made of them.
package metricstest

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/pressure"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/schedule/target"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
	"github.com/sluice-go/sluice/sqlite/replaystore"
	"github.com/sluice-go/sluice/sqlite/slotstore"
)

// Registry is the registry of a node with a shared store in memory, failover,
// tokens held ahead, a catalog on SQLite, a policy file, slots and replays. A
// take was allowed and another refused, so the metrics with labels have some.
func Registry(t *testing.T) *prometheus.Registry {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	closing := func(c io.Closer) {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	register := func(all ...prometheus.Collector) {
		t.Helper()
		for _, c := range all {
			must(registry.Register(c))
		}
	}
	register(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	store, err := memory.Open(memory.Config{Log: log})
	must(err)
	calls := metrics.NewCalls(store)
	guarded, err := failover.New(calls, failover.Config{Log: log})
	must(err)
	ahead, err := advance.New(guarded, advance.Config{Log: log})
	must(err)
	closing(ahead)
	register(metrics.Memory(store), calls, metrics.Failover(guarded), metrics.Advance(ahead))
	gauge := pressure.Watch(1<<40, nil, map[string]pressure.Relief{"buckets": store.Press, "answers": nil}, log)
	closing(gauge)
	register(metrics.Pressure(gauge), metrics.Alarms(nil))

	dir := t.TempDir()
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "sluice.db"))
	must(err)
	closing(db)
	cat, err := catalog.Open(t.Context(), catalog.Config{Store: catalogstore.New(db), Log: log})
	must(err)
	closing(cat)
	recorder, err := catalog.NewRecorder(catalog.RecorderConfig{Store: catalogstore.New(db), Log: log})
	must(err)
	closing(recorder)
	register(metrics.Catalog(cat), metrics.Usage(recorder))

	path := filepath.Join(dir, "policy.yaml")
	must(os.WriteFile(path, []byte("version: 1\nsystem:\n  limit: {rpm: 1/hour}\n"), 0o600))
	live, err := policy.Watch(t.Context(), path, policy.WatchConfig{Log: log})
	must(err)
	t.Cleanup(live.Close)
	register(metrics.Policy(live))

	scheduler, err := schedule.New(schedule.Config{Store: slotstore.New(db), Log: log})
	must(err)
	keeper, err := idempotency.New(idempotency.Config{Store: replaystore.New(db, nil), Log: log})
	must(err)
	closing(keeper)
	targets, err := target.New(target.Config{Slots: scheduler, Limiter: sluice.New(store), Log: log})
	must(err)
	register(metrics.Slots(scheduler), metrics.Targets(targets), metrics.Replays(keeper))

	refusals, err := httplimit.NewAudit(nil, 0)
	must(err)
	closing(refusals)
	sanctions := metrics.NewSanctions()
	guard, err := abuse.New(abuse.Config{Audit: sanctions.Told, Log: log})
	must(err)
	sanctions.Watch(guard)
	requests := metrics.NewRequests()
	requests.Decided(&httplimit.Call{Outcome: httplimit.Denylisted, Route: &policy.Route{}})
	register(metrics.Refusals(refusals), metrics.Logins(abuse.NewLogins(log)), sanctions, requests)

	takes := metrics.NewTakes()
	utilization, err := metrics.NewUtilization(catalog.Thresholds{}, log)
	must(err)
	register(takes, utilization, metrics.Waiting(sluice.New(ahead)))
	for _, o := range []sluice.Observer{takes, utilization} {
		l := sluice.New(ahead, sluice.WithObserver(o))
		for range 2 {
			_, err := l.Take(t.Context(), sluice.Demand{
				Key:   sluice.Key{Entity: "alice", Resource: "mail", Limit: "rpm"},
				Limit: sluice.MustParse("2/hour"), Critical: true, Cost: sluice.Tokens(2),
			})
			must(err)
		}
	}
	shadow := sluice.Take{Demands: []sluice.Demand{{Key: sluice.Key{Resource: "mail", Limit: "trial"}, Shadow: true}}}
	takes.Decided(&shadow, &sluice.Decision{Allowed: true, Results: make([]sluice.Result, 1)}, nil, 0)
	register(metrics.Connections(connected{}), metrics.Pools(map[string]metrics.Pooled{"limits": connected{}}))
	return registry
}

// connected is connections to databases that are not there.
type connected struct{}

func (connected) Connections() (open, opened int64) { return 1, 1 }
func (connected) Pool() postgres.Pool               { return postgres.Pool{Max: 10, Open: 1} }
