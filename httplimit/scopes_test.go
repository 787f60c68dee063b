package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/httplimit"
)

var scoped = `
version: 1
limits: {all: {per: caller, limit: 5/hour}}
endpoints:
  orders: {match: POST /orders, scopes: ["orders:write", "orders:read"]}
  health: {match: /health}
exempt: {methods: OPTIONS, match: /open/**}
allow: ['key:trusted', 192.0.2.9]
identity:
  keys:
    - {name: reader, sha256: ` + hash("reader") + `, scopes: ["orders:read"]}
    - {name: writer, sha256: ` + hash("writer") + `, scopes: ["orders:read", "orders:write"]}
    - {name: trusted, sha256: ` + hash("trusted") + `}
upstream: {entity: X-Who, tier: X-Plan, scopes: X-May}
`

func TestEndpointsDemandScopes(t *testing.T) {
	g := gate(t, scoped)
	reached := 0
	h := g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	for i, c := range []struct {
		method, path, key string
		status            int
		body, challenge   string
	}{
		{"POST", "/orders", "writer", 200, "", ""},
		{"POST", "/orders", "reader", 403, `"message":"this needs the scope orders:write, which the API key does not have"`, `Bearer error="insufficient_scope", scope="orders:write"`},
		{"POST", "/orders", "trusted", 403, `"scopes":["orders:write","orders:read"]`, `Bearer error="insufficient_scope", scope="orders:write orders:read"`}, // an allow list is about limits
		{"POST", "/orders", "", 401, `"message":"this needs an API key or token with the scope orders:write and orders:read"`, `Bearer scope="orders:write orders:read"`},
		{"POST", "/orders", "guessed", 401, "ERR_INVALID_CREDENTIALS", `Bearer error="invalid_token"`},
		{"POST", "/open/../orders", "reader", 403, "ERR_SCOPE", ""}, // however the server reads it
		{"POST", "/health/..//orders", "reader", 403, "ERR_SCOPE", ""},
		{"POST", "/%6frders", "reader", 403, "ERR_SCOPE", ""},
		{"GET", "/orders", "reader", 200, "", ""},
		{"OPTIONS", "/orders", "", 200, "", ""},
	} {
		before := reached
		r := httptest.NewRequest(c.method, c.path, nil)
		if c.key != "" {
			r.Header.Set("X-API-Key", c.key)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) || c.challenge != "" && w.Header().Get("WWW-Authenticate") != c.challenge || (reached > before) != (c.status == 200) {
			t.Errorf("step %d: %d %s %v", i+1, w.Code, w.Body, w.Header())
		}
	}
	e := g.Explain(t.Context(), &httplimit.Request{Method: "POST", Path: "/orders", Header: http.Header{"X-Api-Key": {"reader"}}, Remote: "192.0.2.1:1"})
	if e.Outcome != httplimit.Forbidden || !strings.Contains(e.String(), "answer: forbidden, 403: this needs the scope orders:write") {
		t.Error(e)
	}
	for _, r := range e.Decision.Results {
		t.Errorf("a request without the scope takes %v", r)
	}
}

// TestHandlersAreToldWhoIsCalling: also those that are no gateway.
func TestHandlersAreToldWhoIsCalling(t *testing.T) {
	var got http.Header
	h := gate(t, scoped).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	for path, want := range map[string][2]string{"/x": {"key:writer", "orders:read orders:write"}, "/open/x": {}} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header = http.Header{"X-Api-Key": {"writer"}, "X-Who": {"root", "root"}, "X_who": {"root"}, "X-May": {"all"}, "X-Plan": {"best"}, "Connection": {"Upgrade, x-who ,X_may"}}
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got.Get("X-Who") != want[0] || got.Get("X-May") != want[1] || got["X-Plan"] != nil || got["X_who"] != nil || got.Get("Connection") != "Upgrade" {
			t.Errorf("%s: %v", path, got)
		}
		if r.Header.Get("X-Who") != "root" {
			t.Error("the request of whoever is outside was changed")
		}
	}
}
