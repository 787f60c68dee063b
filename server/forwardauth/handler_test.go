package forwardauth_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/server/forwardauth"
)

// thePolicy trusts proxies on this machine. Whoever has the address 198.51.100.66
// is not welcome.
const thePolicy = `
version: 1
identity:
  address:
    trusted_proxies: [127.0.0.0/8]
deny: [198.51.100.66]
limits:
  everything: {per: ip, limit: 3/day}
  search: {per: ip, match: POST /search, limit: 1/day}
exempt: {match: [/health]}
`

// auth is the handler on a store in memory.
func auth(t testing.TB) http.Handler {
	t.Helper()
	return authBy(t, thePolicy)
}

func authBy(t testing.TB, text string) http.Handler {
	t.Helper()
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	gate, err := httplimit.Open(t.Context(), httplimit.Config{
		Limiter: sluice.New(store), Policy: p, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gate.Close()
		store.Close()
	})
	h, err := forwardauth.Handler(forwardauth.Config{Gate: gate, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// ask is a question as Traefik asks it: GET whatever the method, and all that
// is known about the request in headers.
func ask(h http.Handler, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	r.RemoteAddr = "127.0.0.1:1234"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func forwarded(method, uri, client string) []string {
	return []string{
		"X-Forwarded-Method", method, "X-Forwarded-Uri", uri, "X-Forwarded-For", client,
		"X-Forwarded-Proto", "https", "X-Forwarded-Host", "shop.example",
	}
}

// TestTraefik is the contract of ForwardAuth: 2xx passes, and anything else
// goes to the client as it is, headers and body.
func TestTraefik(t *testing.T) {
	h := auth(t)
	for i, c := range []struct {
		headers []string
		status  int
		limit   string // in the body
	}{
		{forwarded("GET", "/x?y=1", "203.0.113.1"), 200, ""},
		{forwarded("POST", "/search", "203.0.113.1"), 200, ""},
		{forwarded("POST", "/search#x", "203.0.113.1"), 400, ""}, // nginx tells the fragment, and passes it on
		{forwarded("POST", "/health#/../search", "203.0.113.1"), 400, ""},
		{append(forwarded("POST", "/search", "203.0.113.1"), "X-Http-Method-Override", "GET"), 429, "search"},
		{append(forwarded("POST", "/search", "203.0.113.1"), "X-Original-Uri", "/health", "X-Rewrite-Url", "/health"), 429, "search"},
		{forwarded("GET", "/search", "203.0.113.1"), 200, ""}, // the refusal took nothing
		{forwarded("GET", "/", "203.0.113.1"), 429, "everything"},
		{forwarded("GET", "/health", "203.0.113.1"), 200, ""},
		{forwarded("GET", "/", "203.0.113.2"), 200, ""},
		{forwarded("GET", "/", "203.0.113.1, 203.0.113.3"), 200, ""}, // the first is what the client claims
		{forwarded("GET", "/", "198.51.100.66"), 403, ""},
	} {
		w := ask(h, "/auth", c.headers...)
		if w.Code != c.status {
			t.Errorf("step %d: %d, want %d: %s", i+1, w.Code, c.status, w.Body)
		}
		if c.limit == "" {
			continue
		}
		if w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"limit":"`+c.limit+`"`) {
			t.Errorf("step %d: headers %v, body %s", i+1, w.Header(), w.Body)
		}
	}
}

func TestQuestionsThatMakeNoSense(t *testing.T) {
	h := auth(t)
	for _, c := range []struct {
		target  string
		headers []string
		status  int
		want    string
	}{
		{"/auth", nil, 400, "X-Forwarded-Method: the proxy must set it, once"},
		{"/auth", []string{"X-Forwarded-Method", "GET"}, 400, "X-Forwarded-Uri: the proxy must set it, once"},
		{"/auth", append(forwarded("GET", "/", "203.0.113.1"), "X-Forwarded-Uri", "/health"), 400, "once"}, // one of them is the client's
		{"/auth", forwarded("GET", "no path", "203.0.113.1"), 400, "must be a path"},
		{"/auth", forwarded("GET", "http://host/", "203.0.113.1"), 400, "must be a path"},
		{"/auth", forwarded("GET", "/"+strings.Repeat("x", 20<<10), "203.0.113.1"), 400, "bytes long"},
		{"/auth?status=500", forwarded("GET", "/", "203.0.113.1"), 400, "status: must be 403"},
	} {
		if w := ask(h, c.target, c.headers...); w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %q: %d %s, want %d %s", c.target, c.headers, w.Code, w.Body, c.status, c.want)
		}
	}
	r := httptest.NewRequest("GET", "/auth", nil)
	r.RemoteAddr = "192.0.2.1:1"
	r.Header.Set("X-Forwarded-Method", "GET")
	r.Header.Set("X-Forwarded-Uri", "/")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 403 || !strings.Contains(w.Body.String(), "trusted_proxies") {
		t.Errorf("a stranger got %d %s", w.Code, w.Body)
	}
}

// TestStatusForNginx is what ?status=403 changes.
func TestStatusForNginx(t *testing.T) {
	h := auth(t)
	for _, want := range []struct {
		code int
		real string
	}{{200, ""}, {403, "429"}} {
		w := ask(h, "/auth?status=403", forwarded("POST", "/search", "203.0.113.1")...)
		if got := w.Header().Get("X-Sluice-Status"); w.Code != want.code || got != want.real {
			t.Errorf("%d, X-Sluice-Status %q, want %+v", w.Code, got, want)
		}
	}
}

// FuzzQuestion asks with any headers: the answer is one that a proxy can use.
func FuzzQuestion(f *testing.F) {
	f.Add("GET", "/", "203.0.113.1")
	f.Add("", "//%2e%2e/\x00", "::1, garbage")
	f.Add("G T", "*", "")
	h := auth(f)
	f.Fuzz(func(t *testing.T, method, uri, client string) {
		w := ask(h, "/auth", "X-Forwarded-Method", method, "X-Forwarded-Uri", uri, "X-Forwarded-For", client)
		switch w.Code {
		case 200, 400, 403, 429:
		default:
			body, _ := io.ReadAll(w.Body)
			t.Fatalf("%d %s", w.Code, body)
		}
	})
}
