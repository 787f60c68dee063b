package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-go/sluice"
)

// Config says where spans go. OpenTelemetry's own environment variables say
// the rest: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER
// and its OTEL_TRACES_SAMPLER_ARG, OTEL_BSP_…, OTEL_EXPORTER_OTLP_HEADERS and
// the others of the OTLP exporter.
type Config struct {
	// Endpoint is where to send spans with OTLP over HTTP, such as
	// http://127.0.0.1:4318. Empty means what the environment says:
	// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT. If
	// that is nothing, there is no tracing.
	Endpoint string

	// Version is this program's version, as spans show it.
	Version string

	// Log gets what goes wrong with sending. Nil means slog.Default.
	Log *slog.Logger
}

// Tracing makes spans. Nil makes none.
type Tracing struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	shutdown   func(context.Context) error
}

const scope = "github.com/sluice-go/sluice"

// New makes spans with a provider that the program has already. Shutting that
// down stays its own business.
func New(provider trace.TracerProvider) *Tracing {
	return &Tracing{
		tracer: provider.Tracer(scope), propagator: propagation.TraceContext{},
		shutdown: func(context.Context) error { return nil },
	}
}

// Open makes spans and sends them where config and the environment say, or
// is nil if they say nothing. Spans are sent in batches, beside the requests;
// when the receiver is away they are dropped, and nobody waits.
func Open(ctx context.Context, config Config) (*Tracing, error) {
	options, err := config.exporter(os.Getenv)
	if err != nil || options == nil {
		return nil, err
	}
	log := config.Log
	if log == nil {
		log = slog.Default()
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	self := []attribute.KeyValue{attribute.String("service.name", "sluice")}
	if config.Version != "" {
		self = append(self, attribute.String("service.version", config.Version))
	}
	about, err := resource.New(ctx, resource.WithAttributes(self...), resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tracing: %w", err), exporter.Shutdown(ctx))
	}
	// The library knows one place for its errors in the whole program.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("tracing", "error", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	t := New(provider)
	t.shutdown = provider.Shutdown
	return t, nil
}

// exporter says how to send spans; nil if they are not to be sent.
func (c *Config) exporter(env func(string) string) ([]otlptracehttp.Option, error) {
	asked := cmp.Or(c.Endpoint, env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if asked == "" || strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") || env("OTEL_TRACES_EXPORTER") == "none" {
		return nil, nil
	}
	if e := env("OTEL_TRACES_EXPORTER"); e != "" && e != "otlp" {
		return nil, &sluice.FieldError{Field: "OTEL_TRACES_EXPORTER", Value: e, Reason: "must be otlp or none"}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := env(name); p != "" && p != "http/protobuf" {
			return nil, &sluice.FieldError{Field: name, Value: p, Reason: "must be http/protobuf"}
		}
	}
	u, err := url.Parse(asked)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		shown := "(not a URL)"
		if err == nil {
			shown = u.Redacted()
		}
		return nil, &sluice.FieldError{Field: "tracing.endpoint", Value: shown, Reason: "must be a URL such as http://127.0.0.1:4318"}
	}
	if c.Endpoint == "" {
		return []otlptracehttp.Option{}, nil // the exporter reads the environment itself
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces" // as for OTEL_EXPORTER_OTLP_ENDPOINT
	}
	return []otlptracehttp.Option{otlptracehttp.WithEndpointURL(u.String())}, nil
}

// Shutdown sends the spans that wait and ends tracing.
func (t *Tracing) Shutdown(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.shutdown(ctx)
}
