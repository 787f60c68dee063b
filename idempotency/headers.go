package idempotency

import (
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-go/sluice"
)

// DefaultHeaders are the response headers that are stored if a route does not
// say: those that describe the body or what was made.
var DefaultHeaders = []string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location",
	"Content-Type", "ETag", "Last-Modified", "Link", "Location", "Vary",
}

// neverHeaders belong to one response, one connection or one caller.
var neverHeaders = []string{
	"Age", "Authentication-Info", "Authorization", "Connection", "Content-Length", "Date", "Keep-Alive",
	"Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization", "Proxy-Connection",
	"Retry-After", "Set-Cookie", "Set-Cookie2", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Www-Authenticate", ReplayHeader, StoreHeader, OutcomeHeader,
}

// neverPrefixes begin the names of more of them.
var neverPrefixes = []string{"Ratelimit", "X-Ratelimit"}

// Stores reports whether a response header may be stored: it does not belong to
// one response, one connection or one caller.
func Stores(header string) bool {
	name := http.CanonicalHeaderKey(header)
	return !slices.Contains(neverHeaders, name) &&
		!slices.ContainsFunc(neverPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func (r *Route) parseHeaders() error {
	if r.Headers == nil {
		r.Headers = DefaultHeaders
	}
	r.headers = make([]string, 0, len(r.Headers))
	for _, text := range r.Headers {
		name := http.CanonicalHeaderKey(strings.TrimSpace(text))
		switch {
		case name == "" || strings.ContainsAny(name, " :\r\n"):
			return &sluice.FieldError{Field: "route.headers", Value: text, Reason: "must be the name of a header"}
		case !Stores(name):
			return &sluice.FieldError{Field: "route.headers", Value: name, Reason: "belongs to one response, connection or caller: it is never stored"}
		}
		r.headers = append(r.headers, name)
	}
	return nil
}

// pick is what is stored of h, and ok is false if that would be too much.
func (r *Route) pick(h http.Header) (picked http.Header, ok bool) {
	size := 0
	for _, name := range r.headers {
		values := h[name]
		if len(values) == 0 {
			continue
		}
		if picked == nil {
			picked = make(http.Header)
		}
		picked[name] = values
		for _, v := range values {
			size += len(name) + len(v) + 8
		}
	}
	return picked, size <= MaxHead
}
