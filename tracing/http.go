package tracing

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Handler makes a span of each request, as part of the caller's trace if the
// request names one (W3C traceparent). The request that next sees names the
// span itself, so that what a gateway asks for becomes part of it. On a nil
// Tracing, it is next.
func (t *Tracing) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers := propagation.HeaderCarrier(r.Header)
		ctx := t.propagator.Extract(r.Context(), headers)
		ctx, span := t.tracer.Start(ctx, method(r), trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		t.propagator.Inject(ctx, headers)
		r = r.WithContext(ctx)
		if !span.IsRecording() {
			next.ServeHTTP(w, r)
			return
		}
		span.SetAttributes(attribute.String("http.request.method", method(r)), attribute.String("url.path", text(r.URL.Path)))
		if id := RequestID(ctx); id != "" {
			span.SetAttributes(attribute.String("request.id", id))
		}
		sw := &statusWriter{ResponseWriter: w}
		defer func() { answered(span, r, sw) }()
		next.ServeHTTP(sw, r)
	})
}

// answered notes how a request was answered. By now the mux has written down
// which pattern it followed.
func answered(span trace.Span, r *http.Request, w *statusWriter) {
	if r.Pattern != "" {
		span.SetName(r.Pattern)
		span.SetAttributes(attribute.String("http.route", r.Pattern))
	}
	span.SetAttributes(attribute.Int("http.response.status_code", w.code()))
	if w.code() >= 500 {
		span.SetStatus(codes.Error, http.StatusText(w.code()))
	}
}

// method is the request's, or "HTTP" for one that somebody made up: names of
// spans must be few.
func method(r *http.Request) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return r.Method
	}
	return "HTTP"
}

// maxText is the longest text from outside that a span gets, in bytes.
const maxText = 1024

// text makes a caller's text one that can be sent: a single string that is not
// UTF-8 would lose all spans that are sent with it.
func text(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxText)], "\uFFFD") }
