// Package once keeps net/http from sending a write a second time.
//
// When a connection that was in use before breaks, [http.Transport] sends
// requests again that carry an Idempotency-Key and can be rewound, although
// they may have been executed. Over HTTP/2 it does the same for every request
// without a body that the other side has reset with PROTOCOL_ERROR.
package once

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
)

// ErrNotSent is wrapped by an error after which it is certain that nothing of
// the write was sent.
var ErrNotSent = errors.New("nothing was sent")

// Transport sends every write once at most. All other requests are the base's
// alone.
type Transport struct {
	Base http.RoundTripper // nil means http.DefaultTransport

	// HTTP2 says that the base may speak HTTP/2 without TLS, too.
	HTTP2 bool
}

// Safe reports whether a method only reads.
func Safe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// RoundTrip sends a request. An error about a write of which nothing was sent
// wraps [ErrNotSent].
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if Safe(r.Method) {
		return base.RoundTrip(r)
	}
	// A base that does not trace proves nothing, so it counts what it says.
	var asked, wrote atomic.Bool
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GetConn:          func(string) { asked.Store(true) },
		WroteHeaderField: func(string, []string) { wrote.Store(true) },
	}))
	r.Header = hidden(r.Header)
	r.GetBody = nil
	if (r.Body == nil || r.Body == http.NoBody) && (t.HTTP2 || r.URL.Scheme == "https") {
		// HTTP/2 repeats what has no body. HTTP/1 sends this one as an empty
		// chunked body if the method usually has one, else as none.
		r.Body = struct{ io.ReadCloser }{http.NoBody}
	}
	response, err := base.RoundTrip(r)
	if err != nil && asked.Load() && !wrote.Load() {
		err = notSentError{err}
	}
	return response, err
}

// CloseIdleConnections closes those of the base.
func (t Transport) CloseIdleConnections() {
	if c, ok := t.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// hidden returns h with the names of keys in lower case, which mean the same to
// everyone but net/http: it looks for them by their canonical names.
func hidden(h http.Header) http.Header {
	copied := false
	for _, name := range [...]string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			if !copied {
				h, copied = maps.Clone(h), true
			}
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
	return h
}

// notSentError is an error that proves that nothing was sent.
type notSentError struct{ error }

func (e notSentError) Unwrap() []error { return []error{e.error, ErrNotSent} }

// Timeout reports whether it was a time-out.
func (e notSentError) Timeout() bool {
	t, ok := e.error.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
