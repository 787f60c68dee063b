package gateway_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/idempotency"
)

// TestWhoseKeyItIs: a route says whom an idempotency key belongs to. Who does
// not tell is refused, and nothing runs.
func TestWhoseKeyItIs(t *testing.T) {
	var runs atomic.Int64
	up := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		runs.Add(1)
		w.Header().Set("X-Order", "17")
		w.Header().Set("X-Other", "17")
	})
	k := keeper(t)
	_, at := running(t, gateway.Config{Upstream: up, Inner: httplimit.Idempotent(k), Gate: gate(t, `
version: 1
limits: {all: {per: ip, limit: 100000/minute}}
identity:
  keys:
  - {name: one, sha256: 0f8bb60379547d980254a2a9bda70e8ee78a7f5fe0d900c317fcc27c7a95f454, entity: acme}
  - {name: two, sha256: 36733a1fcc8f9b5fde293c9a0178e0d667a2202bf758a7fcb3fc5854275b11bc, entity: acme}
idempotency:
  entity: {match: /entity}
  known: {match: /known, identity: required, headers: [x-order]}
  key: {match: /key, scope: key}
  tenant: {match: /tenant, scope: namespace}
  header: {match: /header, scope: "header:X-Org"}
`)})
	one, two := []string{"X-API-Key", "secret-of-one-0123456789"}, []string{"X-API-Key", "secret-of-two-0123456789"}
	for _, test := range []struct {
		path          string
		first, second []string // headers of a request and of another with the same key
		same          bool     // the second gets the first one's response
		tenant        string
	}{
		{"/entity", one, two, true, "default/acme"},
		{"/known", one, two, true, "default/acme"},
		{"/key", one, two, false, "default/key:one"},
		{"/tenant", one, nil, true, "default"},
		{"/header", []string{"X-Org", "a"}, []string{"X-Org", "b"}, false, "default/header:X-Org:a"},
		{"/header", []string{"X-Org", "c"}, append([]string{"X-Org", "c"}, one...), true, "default/header:X-Org:c"},
	} {
		runs.Store(0)
		send := func(header []string) *http.Response {
			response, text := do(t, "POST", at+test.path, strings.NewReader(""), append([]string{"Idempotency-Key", "k"}, header...)...)
			if response.StatusCode != 200 && response.StatusCode != 422 {
				t.Errorf("%s: %d %s", test.path, response.StatusCode, text)
			}
			return response
		}
		send(test.first)
		second := send(test.second)
		if same := second.Header.Get("Idempotent-Replay") == "true"; same != test.same || same != (runs.Load() == 1) {
			t.Errorf("%s with %v and %v: the same: %v, %d runs", test.path, test.first, test.second, same, runs.Load())
		}
		if test.path == "/known" && (second.Header.Get("X-Order") != "17" || second.Header.Get("X-Other") != "") {
			t.Errorf("the replay has %v", second.Header)
		}
		if _, _, err := k.Lookup(t.Context(), idempotency.Scope{Tenant: test.tenant, Method: "POST", Route: test.path[1:], Key: "k"}); err != nil {
			t.Errorf("%s: %s: %v", test.path, test.tenant, err)
		}
	}
	runs.Store(0)
	for path, header := range map[string][]string{"/known": nil, "/key": nil, "/header": {"X-Org", "a", "X-Org", "b"}, "/header?": nil} {
		response, text := do(t, "POST", at+path, strings.NewReader(""), append([]string{"Idempotency-Key", "k2"}, header...)...)
		if response.StatusCode != 401 || !strings.Contains(text, idempotency.CodeIdentity) || runs.Load() != 0 {
			t.Errorf("%s: %d %s, %d runs", path, response.StatusCode, text, runs.Load())
		}
	}
}
