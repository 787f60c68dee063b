package tracing_test

import (
	"context"
	"encoding/hex"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/storetest"
	"github.com/sluice-go/sluice/tracing"
)

func open(tb testing.TB, config memory.Config) *memory.Store {
	config.Log = quiet
	s, err := memory.Open(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// limited answers takes of two tokens an hour, on a store with spans in front
// of another one with spans.
func limited(t *testing.T, tr *tracing.Tracing) http.Handler {
	l := sluice.New(tr.Store("decide", tr.Store("memory", open(t, memory.Config{}))))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /take/{who}", func(w http.ResponseWriter, r *http.Request) {
		var d sluice.Decision
		err := l.Decide(r.Context(), &sluice.Take{Tier: "free", Demands: []sluice.Demand{{
			Key:   sluice.Key{Entity: r.PathValue("who"), Resource: r.URL.Query().Get("resource"), Limit: "rpm"},
			Limit: sluice.MustParse("2/hour"),
		}}}, &d)
		switch {
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		case !d.Allowed:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	return tracing.RequestIDs(tr.Handler(mux))
}

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	sampled = "00-" + traceID + "-b7ad6b7169203331-01"
)

func get(h http.Handler, path, traceparent string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("X-Request-Id", "id-1")
	if traceparent != "" {
		r.Header.Set("Traceparent", traceparent)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func parent(t *testing.T, child *spans.Span) string {
	t.Helper()
	if got := hex.EncodeToString(child.GetTraceId()); got != traceID {
		t.Errorf("%s is of the trace %s, want %s", child.GetName(), got, traceID)
	}
	return hex.EncodeToString(child.GetParentSpanId())
}

func id(s *spans.Span) string { return hex.EncodeToString(s.GetSpanId()) }

// TestARequestIsFollowed from the caller's trace to the store.
func TestARequestIsFollowed(t *testing.T) {
	unset(t)
	r := receive(t)
	tr := setup(t, r.URL)
	if w := get(limited(t, tr), "/take/alice?resource=mail", sampled); w.Code != 200 {
		t.Fatal(w.Code)
	}
	all := r.got(t, tr)
	request, decision, call := all["GET /take/{who}"], all["decide take"], all["memory take"]
	if request == nil || decision == nil || call == nil || r.count != 3 {
		t.Fatalf("%d spans: %v", r.count, all)
	}
	if got := parent(t, request); got != "b7ad6b7169203331" {
		t.Errorf("the request's parent is %s, want the caller's", got)
	}
	if parent(t, decision) != id(request) || parent(t, call) != id(decision) {
		t.Error("the spans do not lie in one another")
	}
	want := map[string]any{
		"http.request.method": "GET", "url.path": "/take/alice", "http.route": "GET /take/{who}",
		"http.response.status_code": int64(200), "request.id": "id-1",
	}
	if got := values(request.GetAttributes()); !maps.Equal(got, want) {
		t.Errorf("request: %v, want %v", got, want)
	}
	want = map[string]any{
		"sluice.allowed": true, "sluice.source": "store", "sluice.demands": int64(1), "sluice.peek": false,
		"sluice.resource": "mail", "sluice.limit": "rpm", "sluice.tier": "free",
	}
	if got := values(decision.GetAttributes()); !maps.Equal(got, want) {
		t.Errorf("decision: %v, want %v", got, want)
	}
	if r.resource["service.name"] != "sluice" || r.resource["service.version"] != "v1.2.3" {
		t.Errorf("resource: %v", r.resource)
	}
}

func TestARefusalTellsWhen(t *testing.T) {
	unset(t)
	r := receive(t)
	tr := setup(t, r.URL)
	h := limited(t, tr)
	for _, code := range []int{200, 200, 429} {
		if w := get(h, "/take/alice?resource="+url.QueryEscape("m\xffil"), sampled); w.Code != code {
			t.Fatalf("%d, want %d", w.Code, code)
		}
	}
	all := r.got(t, tr)
	got := values(all["decide take"].GetAttributes())
	if ms, ok := got["sluice.retry_after_ms"].(int64); !ok || ms <= 0 || ms > 1_800_000 {
		t.Errorf("retry after %v ms", got["sluice.retry_after_ms"])
	}
	if got["sluice.resource"] != "m\uFFFDil" {
		t.Errorf("resource is %q", got["sluice.resource"])
	}
	if s := all["GET /take/{who}"].GetStatus().GetCode(); s == spans.Status_STATUS_CODE_ERROR {
		t.Error("a refusal is no error of the server")
	}
}

// TestATraceThatIsNotKeptHasNoSpans, neither for the request nor for what is
// done for it.
func TestATraceThatIsNotKeptHasNoSpans(t *testing.T) {
	unset(t)
	r := receive(t)
	tr := setup(t, r.URL)
	if w := get(limited(t, tr), "/take/alice", strings.TrimSuffix(sampled, "1")+"0"); w.Code != 200 {
		t.Fatal(w.Code)
	}
	if all := r.got(t, tr); r.count != 0 {
		t.Errorf("%d spans: %v", r.count, all)
	}
}

// TestTheEnvironmentSetsItUp, by the names that OpenTelemetry gives.
func TestTheEnvironmentSetsItUp(t *testing.T) {
	unset(t)
	r := receive(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", r.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
	t.Setenv("OTEL_SERVICE_NAME", "limits")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	tr := setup(t, "")
	get(limited(t, tr), "/take/alice", "")
	r.got(t, tr)
	if r.count != 3 || r.header.Get("Api-Key") != "secret" {
		t.Errorf("%d spans, with the headers %v", r.count, r.header)
	}
	if r.resource["service.name"] != "limits" || r.resource["deployment.environment"] != "test" {
		t.Errorf("resource: %v", r.resource)
	}
}

func TestTheSamplerOfTheEnvironmentCounts(t *testing.T) {
	unset(t)
	r := receive(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	tr := setup(t, r.URL)
	h := limited(t, tr)
	get(h, "/take/alice", "")
	get(h, "/take/bob", sampled)
	if r.got(t, tr); r.count != 3 {
		t.Errorf("%d spans, want only those of the trace that the caller keeps", r.count)
	}
}

// TestOffIsAsIfItWereNotThere: nothing is wrapped.
func TestOffIsAsIfItWereNotThere(t *testing.T) {
	unset(t)
	tr := setup(t, "")
	if tr != nil {
		t.Fatal("there is tracing though nobody asked for it")
	}
	store := open(t, memory.Config{})
	if tr.Store("memory", store) != sluice.Store(store) {
		t.Error("the store is wrapped")
	}
	mux := http.NewServeMux()
	if tr.Handler(mux) != http.Handler(mux) {
		t.Error("the handler is wrapped")
	}
	if len(tr.ServerOptions()) != 0 {
		t.Error("there are options for gRPC")
	}
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for _, off := range []string{"OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=none"} {
		t.Run(off, func(t *testing.T) {
			name, value, _ := strings.Cut(off, "=")
			t.Setenv(name, value)
			if setup(t, "http://127.0.0.1:4318") != nil {
				t.Error("there is tracing though it is switched off")
			}
		})
	}
}

// TestAReceiverThatIsAwayStopsNobody.
func TestAReceiverThatIsAwayStopsNobody(t *testing.T) {
	unset(t)
	r := receive(t)
	r.Close()
	tr := setup(t, r.URL)
	if w := get(limited(t, tr), "/take/alice", sampled); w.Code != 200 {
		t.Error(w.Code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if tr.Shutdown(ctx) == nil {
		t.Error("the spans are said to be sent")
	}
}

func TestWrongSettingsAreNamed(t *testing.T) {
	for _, c := range []struct{ endpoint, env, want string }{
		{"127.0.0.1:4318", "", "tracing.endpoint"},
		{"ftp://127.0.0.1", "", "tracing.endpoint"},
		{"http://user:hunter2@", "", "tracing.endpoint"},
		{"", "OTEL_EXPORTER_OTLP_ENDPOINT=localhost", "tracing.endpoint"},
		{"http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_PROTOCOL: grpc: must be http/protobuf"},
		{"http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER=zipkin", "OTEL_TRACES_EXPORTER: zipkin: must be otlp or none"},
	} {
		t.Run(c.endpoint+c.env, func(t *testing.T) {
			unset(t)
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			_, err := tracing.Open(t.Context(), tracing.Config{Endpoint: c.endpoint, Log: quiet})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestATracedStoreIsAStore: in front of one, nothing changes.
func TestATracedStoreIsAStore(t *testing.T) {
	unset(t)
	tr := setup(t, receive(t).URL)
	defer tr.Shutdown(t.Context()) //nolint:errcheck // not what is tested
	storetest.Config{Steps: 2000}.Run(t, func(tb testing.TB, now func() time.Time) sluice.Store {
		return tr.Store("memory", open(tb, memory.Config{Clock: now}))
	})
}

// TestGatewaysPassOnTheirOwnSpan: what is asked for behind a handler belongs
// to its span, not beside it.
func TestGatewaysPassOnTheirOwnSpan(t *testing.T) {
	unset(t)
	r := receive(t)
	tr := setup(t, r.URL)
	var seen trace.SpanContext
	var passed string
	h := tr.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen, passed = trace.SpanContextFromContext(r.Context()), r.Header.Get("Traceparent")
	}))
	get(h, "/", sampled)
	if want := "00-" + traceID + "-" + seen.SpanID().String() + "-01"; passed != want {
		t.Errorf("traceparent is %s, want %s", passed, want)
	}
	r.got(t, tr)
}

func BenchmarkStore(b *testing.B) {
	demand := sluice.Demand{Key: sluice.Key{Entity: "alice", Limit: "rpm"}, Limit: sluice.MustParse("1000000/second")}
	inner := open(b, memory.Config{})
	off, err := tracing.Open(b.Context(), tracing.Config{})
	if err != nil {
		b.Fatal(err)
	}
	on, err := tracing.Open(b.Context(), tracing.Config{Endpoint: "http://127.0.0.1:1", Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		tracing *tracing.Tracing
	}{{"off", off}, {"on, trace not kept", on}} {
		b.Run(c.name, func(b *testing.B) {
			s := c.tracing.Store("memory", inner)
			take, d := sluice.Take{Demands: []sluice.Demand{demand}}, sluice.Decision{}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Take(b.Context(), &take, &d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
