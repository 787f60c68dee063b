package tracing_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-go/sluice/tracing"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// receiver is where spans are sent to: OTLP over HTTP.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	spans    map[string]*spans.Span // by name
	count    int
	resource map[string]any
	header   http.Header
}

func receive(t *testing.T) *receiver {
	r := &receiver{spans: map[string]*spans.Span{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		var sent collector.ExportTraceServiceRequest
		if request.Method != "POST" || request.URL.Path != "/v1/traces" {
			t.Errorf("spans sent with %s %s", request.Method, request.URL.Path)
		} else if err := proto.Unmarshal(body, &sent); err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.header = request.Header
		for _, rs := range sent.GetResourceSpans() {
			r.resource = values(rs.GetResource().GetAttributes())
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					r.spans[s.GetName()] = s
					r.count++
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

// got is the spans received once all were sent.
func (r *receiver) got(t *testing.T, tr *tracing.Tracing) map[string]*spans.Span {
	t.Helper()
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.spans
}

func values(attributes []*common.KeyValue) map[string]any {
	all := map[string]any{}
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		case *common.AnyValue_BoolValue:
			all[a.GetKey()] = v.BoolValue
		case *common.AnyValue_IntValue:
			all[a.GetKey()] = v.IntValue
		}
	}
	return all
}

// unset clears what the environment of the tests may say about tracing.
func unset(t *testing.T) {
	for _, name := range []string{
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER",
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_SERVICE_NAME", "OTEL_TRACES_SAMPLER",
	} {
		t.Setenv(name, "")
	}
}

func setup(t *testing.T, endpoint string) *tracing.Tracing {
	t.Helper()
	tr, err := tracing.Open(t.Context(), tracing.Config{Endpoint: endpoint, Version: "v1.2.3", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}
