package tracing

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// LogHandler adds to each record the request_id of the context it is logged
// with and, if its trace is kept, trace_id and span_id.
func LogHandler(h slog.Handler) slog.Handler { return &logHandler{h} }

type logHandler struct{ slog.Handler }

func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := RequestID(ctx); id != "" {
		r.AddAttrs(slog.String("request_id", id))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.Handler.WithAttrs(attrs)}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{h.Handler.WithGroup(name)}
}

// AccessLog writes a line for each request, once it is answered. The query is
// left out, because secrets are sent in it.
func AccessLog(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sw := &statusWriter{ResponseWriter: w}
		method, path := r.Method, r.URL.Path // handlers behind may change them
		start := time.Now()
		defer func() {
			log.LogAttrs(r.Context(), slog.LevelInfo, "request",
				slog.String("method", method), slog.String("path", path), slog.Int("status", sw.code()),
				slog.Int64("bytes", sw.written), slog.Duration("took", time.Since(start)), slog.String("remote", r.RemoteAddr))
		}()
		next.ServeHTTP(sw, r)
	})
}
