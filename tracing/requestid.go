package tracing

import (
	"context"
	"net/http"

	"github.com/sluice-go/sluice/internal/requestid"
)

type requestIDKey struct{}

// RequestIDs gives each request an id: the one it brings, if that can stand in
// a log as it is, or a new one. It is in the response, and in the request that
// next sees, so that a gateway passes it on.
func RequestIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := requestid.Give(w.Header(), r.Header)
		next.ServeHTTP(w, r.WithContext(WithRequestID(r.Context(), id)))
	})
}

// WithRequestID returns a context of a request with that id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the id of the request that ctx belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
