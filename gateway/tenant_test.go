package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
)

// TestNobodyGetsAnothersReplay: not those of another namespace on the same
// store, not those of another key on a route that is exempt, and not those of
// another credential that only the upstream can judge, from the same address.
func TestNobodyGetsAnothersReplay(t *testing.T) {
	var runs atomic.Int64
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "run %d", runs.Add(1))
	})
	k := keeper(t)
	const policy = `
version: 1
namespace: %s
limits: {all: {per: ip, limit: 100000/minute}}
exempt: {match: POST /exempt}
idempotency: {orders: {match: [POST /orders, POST /exempt]}}
`
	const keys = `identity: {keys: [{name: a, sha256: ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb}, {name: b, sha256: 3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d}]}`
	_, one := running(t, gateway.Config{Upstream: up, Gate: gate(t, fmt.Sprintf(policy, "one")), Inner: httplimit.Idempotent(k)})
	_, two := running(t, gateway.Config{Upstream: up, Gate: gate(t, fmt.Sprintf(policy, "two")), Inner: httplimit.Idempotent(k)})
	_, known := running(t, gateway.Config{Upstream: up, Gate: gate(t, fmt.Sprintf(policy, "known")+keys), Inner: httplimit.Idempotent(k)})
	for _, step := range []struct {
		url    string
		header []string
		status int
		body   string
	}{
		{one + "/orders", nil, 200, "run 1"},
		{one + "/orders", nil, 200, "run 1"},
		{two + "/orders", nil, 200, "run 2"},
		{known + "/exempt", []string{"X-API-Key", "a"}, 200, "run 3"},
		{known + "/exempt", []string{"X-API-Key", "a"}, 200, "run 3"},
		{known + "/exempt", []string{"X-API-Key", "b"}, 200, "run 4"},
		// Who it is cannot be told. It is neither run again nor answered.
		{one + "/orders", []string{"Authorization", "Bearer mine"}, 422, ""},
		{one + "/orders", []string{"Authorization", "Bearer theirs"}, 422, ""},
	} {
		response, body := do(t, "POST", step.url, strings.NewReader("order"), append(step.header, "Idempotency-Key", "1")...)
		if response.StatusCode != step.status || step.body != "" && body != step.body {
			t.Errorf("%s %v: %d %s, want %d %s", step.url, step.header, response.StatusCode, body, step.status, step.body)
		}
	}
	// A key of a catalog tells callers apart by itself: its credential may change.
	for _, credential := range []string{"Basic one", "Basic two"} {
		if _, body := do(t, "POST", known+"/orders", strings.NewReader("order"), "Idempotency-Key", "2", "X-API-Key", "a", "Authorization", credential); body != "run 5" {
			t.Errorf("%s: %s", credential, body)
		}
	}
}
