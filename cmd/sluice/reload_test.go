package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/redis/redistest"
)

// keyedPolicy is a policy with one key, one limit, and one quota without the
// store.
func keyedPolicy(key, limit, quota, more string) string {
	sum := sha256.Sum256([]byte(key))
	return fmt.Sprintf(`
version: 1
tiers: {%s: {limits: {all: %s}}}
limits: {all: {}}
degraded: {timeout: 5s, failures: 1, quotas: {others: %s}}
identity:
  keys: [{name: k, sha256: %s, entity: alice}]
%s`, "only", limit, quota, hex.EncodeToString(sum[:]), more)
}

// TestAReloadTakesEffectAsAWhole: the next request goes by the new policy, with
// its keys, what is declared of it and what happens without the store; or, if
// any of it cannot be used, by the old one.
func TestAReloadTakesEffectAsAWhole(t *testing.T) {
	dir := t.TempDir()
	server := redistest.Start(t)
	write := func(text string) string { t.Helper(); return writeFile(t, dir, "policy.yaml", text) }
	path := write(keyedPolicy("old", "100/hour", "1/minute", ""))
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := open(ctx, places{store: database{flag: "store", address: server.URL()}, catalog: database{flag: "catalog", address: filepath.Join(dir, "sluice.db")}, policy: path, alerts: catalog.Thresholds{}}, log)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close() //nolint:errcheck // the store is away by then
	if err := s.openGate(ctx, path, log); err != nil {
		t.Fatal(err)
	}
	// stands are the outcomes of the two keys, and the limit at the other doors.
	stands := func() string {
		t.Helper()
		var all []string
		for _, key := range []string{"old", "new"} {
			e := s.gate.Explain(ctx, &httplimit.Request{Method: "GET", Path: "/", Header: http.Header{"X-Api-Key": {key}}, Remote: "192.0.2.1:1"})
			all = append(all, e.Outcome.String())
		}
		r, err := s.catalog.Resolve(ctx, catalog.Subject{Namespace: "default", Entity: "alice", Resource: "all"})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(append(all, r.Applied[0].Setting.Limit.String()), " ")
	}
	if got := stands(); got != "allowed unauthenticated 100/hour" {
		t.Errorf("at first: %s", got)
	}
	write(keyedPolicy("new", "200/hour", "3/minute", ""))
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	if got := stands(); got != "unauthenticated allowed 200/hour" {
		t.Errorf("after a reload: %s", got)
	}
	write(keyedPolicy("old", "300/hour", "5/minute", "  jwt: {algorithms: [HS256], secret_file: /nowhere/secret}\n"))
	if err := s.reload(); err == nil {
		t.Error("a policy without its secret is used")
	}
	if got := stands(); got != "unauthenticated allowed 200/hour" {
		t.Errorf("after a reload that failed: %s", got)
	}
	server.Kill()
	allowed := 0
	for range 6 {
		d, err := s.limiter.Take(ctx, sluice.Demand{Key: sluice.Key{Entity: "alice", Limit: "x"}, Limit: sluice.MustParse("1000/hour")})
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("%d of 6 are allowed without the store, want 3", allowed)
	}
}
