package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestGatewaysShareReplays: of two gateways with the same --replays the second
// answers what the first has stored. Two that share limits alone say so.
func TestGatewaysShareReplays(t *testing.T) {
	var runs atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runs.Add(1) }))
	defer api.Close()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nlimits: {all: {limit: 1000/s}}\nidempotency: {orders: {match: POST /orders}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	redisAt := redistest.Start(t).URL()
	for name, place := range map[string]string{
		"SQLite": filepath.Join(dir, "replays.db"), "Redis": redisAt, "PostgreSQL": postgrestest.Start(t).Database(t), "apart": "",
	} {
		runs.Store(0)
		for i := range 2 {
			args := []string{"gateway", "--upstream", api.URL, "--policy", policy, "--store", redisAt, "--catalog", filepath.Join(t.TempDir(), "sluice.db")}
			if place != "" {
				args = append(args, "--replays", place)
			}
			p := begin(t, args...)
			r, err := http.NewRequestWithContext(t.Context(), "POST", p.url()+"/orders", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Idempotency-Key", name)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if replayed := response.Header.Get("Idempotent-Replay") == "true"; replayed != (i == 1 && place != "") {
				t.Errorf("%s: gateway %d: %d, replayed: %v", name, i, response.StatusCode, replayed)
			}
			p.kill(t)
			if warned := strings.Contains(p.stderr.String(), "same --replays"); warned != (name == "SQLite" || name == "apart") {
				t.Errorf("%s: warned: %v\n%s", name, warned, p.stderr.String())
			}
		}
		if want := map[bool]int64{true: 1, false: 2}[place != ""]; runs.Load() != want {
			t.Errorf("%s: %d runs, want %d", name, runs.Load(), want)
		}
	}
}
