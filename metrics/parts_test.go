package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/postgres"
	pglimits "github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis"
	redislimits "github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/storetest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// TestTimedStoreIsAStore: in front of one, nothing changes but that it is
// timed.
func TestTimedStoreIsAStore(t *testing.T) {
	storetest.Config{Steps: 2000}.Run(t, func(tb testing.TB, now func() time.Time) sluice.Store {
		store, err := memory.Open(memory.Config{Clock: now, Log: quiet})
		if err != nil {
			tb.Fatal(err)
		}
		calls := metrics.NewCalls(store)
		tb.Cleanup(func() {
			if err := calls.Close(); err != nil {
				tb.Error(err)
			}
		})
		return calls
	})
}

// TestStoreCallsAreTimed in front of a real store, with its notifications
// passed on.
func TestStoreCallsAreTimed(t *testing.T) {
	store, err := redislimits.Open(t.Context(), redis.Config{Address: redistest.Start(t).URL(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	calls := metrics.NewCalls(store)
	guarded, err := failover.New(calls, failover.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer guarded.Close()
	woken := make(chan sluice.Key, 1)
	guarded.Watch(func(k sluice.Key) {
		select {
		case woken <- k:
		default:
		}
	})
	l := sluice.New(guarded)
	demand := sluice.Demand{Key: sluice.Key{Entity: "alice"}, Limit: sluice.MustParse("5/hour")}
	// Whoever listens does so soon, but not at once.
	rounds := uint64(0)
	redistest.Eventually(t, time.Minute, "somebody is woken", func() bool {
		if _, err := l.Take(t.Context(), demand); err != nil {
			t.Fatal(err)
		}
		if err := l.Reset(t.Context(), demand.Key); err != nil {
			t.Fatal(err)
		}
		rounds++
		select {
		case k := <-woken:
			return k == demand.Key
		default:
			return false
		}
	})
	families, err := gather(calls)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]uint64{}
	for _, m := range families["sluice_store_call_duration_seconds"].GetMetric() {
		counts[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
	}
	if counts["take"] != rounds || counts["reset"] != rounds {
		t.Errorf("calls timed: %v, want %d takes and as many resets", counts, rounds)
	}
}

func TestPostgres(t *testing.T) {
	store, err := pglimits.Open(t.Context(), postgres.Config{Address: postgrestest.Database(t), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := sluice.New(store).Take(t.Context(), sluice.Demand{Key: sluice.Key{Entity: "alice"}, Limit: sluice.MustParse("5/hour")}); err != nil {
		t.Fatal(err)
	}
	if err := testutil.CollectAndCompare(metrics.Postgres(store), strings.NewReader(`
# HELP sluice_clock_gaps_total Times that nothing was heard of the store's clock for over 15 s.
# TYPE sluice_clock_gaps_total counter
sluice_clock_gaps_total 0
# HELP sluice_clock_steps_total Steps of the store's clock that were seen.
# TYPE sluice_clock_steps_total counter
sluice_clock_steps_total{direction="back"} 0
sluice_clock_steps_total{direction="forward"} 0
# HELP sluice_postgres_takes_total Takes that the database decided.
# TYPE sluice_postgres_takes_total counter
sluice_postgres_takes_total 1
`), "sluice_clock_gaps_total", "sluice_clock_steps_total", "sluice_postgres_takes_total"); err != nil {
		t.Error(err)
	}
}

func TestSanctionsAreCounted(t *testing.T) {
	s := metrics.NewSanctions()
	guard, err := abuse.New(abuse.Config{Audit: s.Told, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s.Watch(guard)
	rules := policy.Abuse{Ban: &policy.Ban{Refusals: 3, Within: time.Minute, For: time.Hour}}
	for _, entity := range []string{"a", "b", "c"} {
		for range 3 {
			guard.Seen(&rules, entity, true)
		}
	}
	if lifted, err := guard.Lift(t.Context(), "b", "somebody"); err != nil || !lifted {
		t.Fatal("b was not banned")
	}
	if err := testutil.CollectAndCompare(s, strings.NewReader(`
# HELP sluice_sanctions Sanctions in force, by kind.
# TYPE sluice_sanctions gauge
sluice_sanctions{kind="ban"} 2
sluice_sanctions{kind="emergency"} 0
# HELP sluice_sanctions_begun_total Sanctions that began, by kind.
# TYPE sluice_sanctions_begun_total counter
sluice_sanctions_begun_total{kind="ban"} 3
sluice_sanctions_begun_total{kind="emergency"} 0
# HELP sluice_sanctions_lifted_total Sanctions that somebody lifted, by kind.
# TYPE sluice_sanctions_lifted_total counter
sluice_sanctions_lifted_total{kind="ban"} 1
sluice_sanctions_lifted_total{kind="emergency"} 0
`)); err != nil {
		t.Error(err)
	}
}

func TestReplaysAreCounted(t *testing.T) {
	store, err := idempotency.NewMemory(idempotency.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	keeper, err := idempotency.New(idempotency.Config{Store: store, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer keeper.Close()
	route := &idempotency.Route{Name: "/pay", Tenant: func(*http.Request) string { return "acme" }}
	if err := route.Prepare(); err != nil {
		t.Fatal(err)
	}
	h := keeper.Handler(func(*http.Request) *idempotency.Route { return route },
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	for range 3 {
		r := httptest.NewRequest("POST", "/pay", strings.NewReader("{}"))
		r.Header.Set("Idempotency-Key", "k1")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if err := testutil.CollectAndCompare(metrics.Replays(keeper), strings.NewReader(`
# HELP sluice_idempotent_requests_total Requests with an idempotency key, by outcome.
# TYPE sluice_idempotent_requests_total counter
sluice_idempotent_requests_total{outcome="conflict"} 0
sluice_idempotent_requests_total{outcome="first_run"} 1
sluice_idempotent_requests_total{outcome="mismatch"} 0
sluice_idempotent_requests_total{outcome="not_kept"} 0
sluice_idempotent_requests_total{outcome="replay"} 2
sluice_idempotent_requests_total{outcome="takeover"} 0
sluice_idempotent_requests_total{outcome="unavailable"} 0
sluice_idempotent_requests_total{outcome="unknown"} 0
`), "sluice_idempotent_requests_total"); err != nil {
		t.Error(err)
	}
}

func TestAPolicyWithMistakesIsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("version: 1\n")
	live, err := policy.Watch(t.Context(), path, policy.WatchConfig{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	write("version: 1\nsystem:\n  limit: {rpm: lots, tpm: more}\n")
	if live.Reload() == nil {
		t.Fatal("a policy with mistakes is accepted")
	}
	if err := testutil.CollectAndCompare(metrics.Policy(live), strings.NewReader(`
# HELP sluice_policy_current 1 if the file as it is now is the policy in place.
# TYPE sluice_policy_current gauge
sluice_policy_current 0
# HELP sluice_policy_mistakes Mistakes in the file as it is now, for which it was refused.
# TYPE sluice_policy_mistakes gauge
sluice_policy_mistakes 2
`), "sluice_policy_current", "sluice_policy_mistakes"); err != nil {
		t.Error(err)
	}
}
