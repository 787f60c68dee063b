package metrics_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/metrics/metricstest"
	"github.com/sluice-go/sluice/policy"
)

func TestTakesAreCounted(t *testing.T) {
	store := open(t)
	takes := metrics.NewTakes()
	l := sluice.New(store, sluice.WithObserver(takes))
	for i := range 5 {
		d := sluice.Demand{Key: sluice.Key{Entity: "alice", Resource: "mail", Limit: "rpm"}, Limit: sluice.MustParse("3/hour"), Cost: sluice.Tokens(1)}
		var decision sluice.Decision
		if err := l.Decide(context.Background(), &sluice.Take{Demands: []sluice.Demand{d}, Tier: "free"}, &decision); err != nil {
			t.Fatal(err)
		}
		if decision.Allowed != (i < 3) {
			t.Fatalf("take %d: allowed is %v", i, decision.Allowed)
		}
	}
	want := `
# HELP sluice_consumed_tokens_total Tokens consumed, over all limits.
# TYPE sluice_consumed_tokens_total counter
sluice_consumed_tokens_total 3
# HELP sluice_refusals_total Refused takes by tier, resource and the limit that decided; beyond the first 500 combinations all are other.
# TYPE sluice_refusals_total counter
sluice_refusals_total{limit="rpm",resource="mail",tier="free"} 2
`
	if err := testutil.CollectAndCompare(takes, strings.NewReader(want), "sluice_consumed_tokens_total", "sluice_refusals_total"); err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(takes, "sluice_takes_total"); n != 30 {
		t.Errorf("%d series of takes, want one for each source, outcome and tier", n)
	}
}

// TestLabelsAreBounded: however many resources there are, Prometheus gets few.
func TestLabelsAreBounded(t *testing.T) {
	takes := metrics.NewTakes()
	for i := range 10_000 {
		d := sluice.Decision{Results: make([]sluice.Result, 1)}
		take := sluice.Take{Demands: []sluice.Demand{{Key: sluice.Key{Resource: fmt.Sprint("/path/", i)}}}}
		takes.Decided(&take, &d, nil, time.Millisecond)
	}
	if n := testutil.CollectAndCount(takes, "sluice_refusals_total"); n != 501 {
		t.Errorf("%d series, want 500 and the others", n)
	}
}

// TestLabelsMayBeAnything: what callers choose must not stop the program.
func TestLabelsMayBeAnything(t *testing.T) {
	takes := metrics.NewTakes()
	u, err := metrics.NewUtilization(catalog.Thresholds{}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	d := sluice.Decision{Results: make([]sluice.Result, 1)}
	for _, name := range []string{"a\xff", "a\xfe", ""} {
		take := sluice.Take{Tier: name, Demands: []sluice.Demand{{Key: sluice.Key{Resource: name, Limit: name}, Limit: sluice.Per(1, time.Second)}}}
		takes.Decided(&take, &d, nil, time.Millisecond)
		u.Decided(&take, &d, nil, time.Millisecond)
	}
	families, err := gather(takes, u)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sluice_refusals_total", "sluice_utilization_ratio"} {
		if n := len(families[name].GetMetric()); n != 2 {
			t.Errorf("%s has %d series, want 2", name, n)
		}
	}
}

// gather is what a registry with these collectors exposes, by name.
func gather(all ...prometheus.Collector) (map[string]*dto.MetricFamily, error) {
	registry := prometheus.NewPedanticRegistry()
	for _, c := range all {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	families, err := registry.Gather()
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName, err
}

// TestNamesAreSound registers everything together and has the linter look.
func TestNamesAreSound(t *testing.T) {
	registry := metricstest.Registry(t)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if series := len(f.GetMetric()); series > 50 {
			t.Errorf("%s has %d series on a node that has done nothing", f.GetName(), series)
		}
		if name := f.GetName(); !ours.MatchString(name) {
			t.Errorf("%s: the name does not say whose it is", name)
		}
	}
	if err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP sluice_store_state 1 for the state that the store is in: normal, open, half-open or a phase of recovery.
# TYPE sluice_store_state gauge
sluice_store_state{state="half-open"} 0
sluice_store_state{state="normal"} 1
sluice_store_state{state="open"} 0
sluice_store_state{state="partial"} 0
sluice_store_state{state="stabilizing"} 0
sluice_store_state{state="testing"} 0
`), "sluice_store_state"); err != nil {
		t.Error(err)
	}
}

// Those of slots have the names of the document that asked for them.
var ours = regexp.MustCompile(`^(sluice|rate_limiter|go|process)_`)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func open(t *testing.T) *memory.Store {
	s, err := memory.Open(memory.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func BenchmarkDecided(b *testing.B) {
	takes := metrics.NewTakes()
	d := sluice.Decision{Allowed: true, Results: make([]sluice.Result, 1)}
	take := sluice.Take{Demands: make([]sluice.Demand, 1)}
	b.ReportAllocs()
	for b.Loop() {
		takes.Decided(&take, &d, nil, time.Microsecond)
	}
}

// TestWaitingIsCounted while it lasts, and when it is over.
func TestWaitingIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.Open(memory.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		takes := metrics.NewTakes()
		l := sluice.New(store, sluice.WithObserver(takes))
		demand := sluice.Demand{Key: sluice.Key{Entity: "alice", Limit: "l"}, Limit: sluice.MustParse("1/minute")}
		if _, err := l.Take(t.Context(), demand); err != nil {
			t.Fatal(err)
		}
		impatient, cancel := context.WithCancel(t.Context())
		for _, ctx := range []context.Context{t.Context(), impatient} {
			go l.Wait(ctx, sluice.Take{Demands: []sluice.Demand{demand}}) //nolint:errcheck // what matters is that they waited
			synctest.Wait()
			time.Sleep(10 * time.Second)
		}
		waits := func(now string, longest float64) {
			t.Helper()
			if err := testutil.CollectAndCompare(metrics.Waiting(l), strings.NewReader(fmt.Sprintf(`
# HELP sluice_waiting_callers Callers of this process that wait in line now.
# TYPE sluice_waiting_callers gauge
sluice_waiting_callers %s
# HELP sluice_waiting_longest_seconds How long the caller has waited that has waited longest of those that wait now.
# TYPE sluice_waiting_longest_seconds gauge
sluice_waiting_longest_seconds %g
`, now, longest))); err != nil {
				t.Error(err)
			}
		}
		waits("2", 20)
		cancel()
		synctest.Wait()
		waits("1", 20)
		time.Sleep(time.Minute)
		waits("0", 0)
		families, err := gather(takes)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, m := range families["sluice_wait_duration_seconds"].GetMetric() {
			if n := m.GetHistogram().GetSampleCount(); n != 1 {
				t.Errorf("%s: %d have waited, want 1", m.GetLabel()[0].GetValue(), n)
			}
			got[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleSum()
		}
		if len(got) != 2 || got["served"] < 60 || got["served"] > 61 || got["given_up"] != 10 {
			t.Errorf("they waited for %v s, want a minute and ten seconds", got)
		}
	})
}

// BenchmarkRequests is what counting costs each request that a gate decides.
func BenchmarkRequests(b *testing.B) {
	requests := metrics.NewRequests()
	c := httplimit.Call{
		Outcome: httplimit.Allowed, Tier: "pro", Identity: identity.Identity{Entity: "alice", Kind: identity.ByKey}, Route: &policy.Route{Endpoint: "search"},
		Decision: sluice.Decision{Allowed: true, Demands: make([]sluice.Demand, 2), Results: make([]sluice.Result, 2)},
	}
	b.ReportAllocs()
	for b.Loop() {
		requests.Decided(&c)
	}
}
