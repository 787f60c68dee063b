package gateway_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/idempotency"
)

// TestAWriteThatMayHaveRunDoesNotRunAgain: the upstream executes a write over a
// connection that is in use already, and then drops it or does not answer in
// time. The write is not sent again, its client is told, nothing is stored, and
// repeats are told until it is settled, or are kept waiting for max_run.
func TestAWriteThatMayHaveRunDoesNotRunAgain(t *testing.T) {
	var runs atomic.Int64
	stop := make(chan struct{})
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" {
			return
		}
		runs.Add(1)
		if strings.HasPrefix(r.URL.Path, "/drop") {
			panic(http.ErrAbortHandler)
		}
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	defer close(stop)
	k := keeper(t)
	g := gate(t, `
version: 1
limits: {all: {per: ip, limit: 100000/minute}}
idempotency:
  told: {match: /drop/told, store_errors: true}
  slow: {match: /slow/told, store_errors: true}
  again: {match: /drop/again, store_errors: true, on_crash: run_again, max_run: 1h}
`)
	_, at := running(t, gateway.Config{Upstream: url, Gate: g, Inner: httplimit.Idempotent(k), ResponseTimeout: 50 * time.Millisecond})
	for path, want := range map[string]struct {
		route, code, repeat string
		status              int
	}{
		"/drop/told":  {"told", "ERR_UPSTREAM", idempotency.CodeUnknown, 502},
		"/slow/told":  {"slow", "ERR_UPSTREAM_TIMEOUT", idempotency.CodeUnknown, 504},
		"/drop/again": {"again", "ERR_UPSTREAM", idempotency.CodeRunning, 502},
	} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			for _, body := range []string{"", "x"} {
				do(t, "GET", at+path, nil) // there is a warm connection
				runs.Store(0)
				key := method + body
				response, text := do(t, method, at+path, strings.NewReader(body), "Idempotency-Key", key)
				if response.StatusCode != want.status || !strings.Contains(text, want.code) || !strings.Contains(text, "may have been executed") ||
					response.Header.Get("Idempotent-Outcome") != "unknown" {
					t.Errorf("%s %s: %d %s %v", method, path, response.StatusCode, text, response.Header)
				}
				for range 3 {
					if response, text := do(t, method, at+path, strings.NewReader(body), "Idempotency-Key", key); response.StatusCode != 409 || !strings.Contains(text, want.repeat) {
						t.Errorf("%s %s again: %d %s", method, path, response.StatusCode, text)
					}
				}
				if n := runs.Load(); n != 1 {
					t.Errorf("%s %s with body %q ran %d times", method, path, body, n)
				}
				s := idempotency.Scope{Tenant: idempotency.Tenant("default", "ip:127.0.0.1"), Method: method, Route: want.route, Key: key}
				record, _, err := k.Lookup(t.Context(), s)
				if err != nil || record.State != idempotency.Running || record.Crashed != (want.repeat == idempotency.CodeUnknown) {
					t.Fatalf("%s %s: record %+v, %v", method, path, record, err)
				}
				if !record.Crashed {
					continue
				}
				if err := k.Settle(t.Context(), s, &idempotency.Response{Status: 201, Body: []byte("done")}); err != nil {
					t.Fatal(err)
				}
				if response, text := do(t, method, at+path, strings.NewReader(body), "Idempotency-Key", key); response.StatusCode != 201 || text != "done" || runs.Load() != 1 {
					t.Errorf("%s %s settled: %d %s, %d runs", method, path, response.StatusCode, text, runs.Load())
				}
			}
		}
	}
}

// TestAWriteThatCannotHaveRunMayRun: without a connection nothing was sent, so
// neither the answer nor the key is kept.
func TestAWriteThatCannotHaveRunMayRun(t *testing.T) {
	k := keeper(t)
	g := gate(t, "version: 1\nlimits: {all: {per: ip, limit: 100000/minute}}\nidempotency: {all: {match: /**, store_errors: true}}\n")
	_, at := running(t, gateway.Config{Upstream: "http://127.0.0.1:1", Gate: g, Inner: httplimit.Idempotent(k)})
	for range 2 {
		response, text := do(t, "POST", at+"/orders", strings.NewReader("x"), "Idempotency-Key", "k")
		if response.StatusCode != 502 || !strings.Contains(text, "nothing was sent") || response.Header.Get("Idempotent-Outcome") != "" {
			t.Errorf("%d %s %v", response.StatusCode, text, response.Header)
		}
	}
}
