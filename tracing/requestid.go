package tracing

import (
	"context"
	"crypto/rand"
	"net/http"
)

// requestIDHeader is where a request's id stands, in the request and in the
// response. (Request-Id, without the X, makes takes safe to repeat.)
const requestIDHeader = "X-Request-Id"

// maxRequestID is the longest id that is taken over, in bytes.
const maxRequestID = 128

type requestIDKey struct{}

// RequestIDs gives each request an id: the one it brings, if that can stand in
// a log as it is, or a new one. It is in the response, and in the request that
// next sees, so that a gateway passes it on.
func RequestIDs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var id string
		if brought := r.Header[requestIDHeader]; len(brought) == 1 && sane(brought[0]) {
			id = brought[0]
		} else {
			id = rand.Text()
			r.Header[requestIDHeader] = []string{id}
		}
		w.Header()[requestIDHeader] = []string{id}
		next.ServeHTTP(w, r.WithContext(WithRequestID(r.Context(), id)))
	})
}

// WithRequestID is a context of a request with that id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID is the id of the request that ctx belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// sane says whether an id from outside may be used: it must not be able to
// look like something else in a log, a header or a shell.
func sane(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '_', c == '.', c == ':', c == '/', c == '+', c == '=':
		default:
			return false
		}
	}
	return true
}
