package idempotency_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/redis/redistest"
)

// BenchmarkHandler is what a request costs with each store: without a key, run
// for the first time, and replayed.
func BenchmarkHandler(b *testing.B) {
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte(`{"order":17}`))
	})
	for _, kind := range []string{"memory", "sqlite", "redis", "postgres"} {
		var store idempotency.Store
		var err error
		switch kind {
		case "memory":
			store, err = idempotency.NewMemory(idempotency.MemoryConfig{MaxRecords: 10_000_000, MaxBytes: 8 << 30})
		case "sqlite":
			store, err = openStore(b.Context(), kind, filepath.Join(b.TempDir(), "sluice.db"))
		case "redis":
			store, err = openStore(b.Context(), kind, redistest.Start(b).URL())
		case "postgres":
			store, err = openStore(b.Context(), kind, postgrestest.Database(b))
		}
		if err != nil {
			b.Fatal(err)
		}
		k := keeperOn(b, store)
		h := k.Handler(always(prepared(b, nil)), inner)
		serve := func(b *testing.B, key string) {
			if w := do(h, post(key, `{"item":"apple"}`)); w.Code != http.StatusCreated {
				b.Fatalf("status %d: %s", w.Code, w.Body)
			}
		}
		if kind == "memory" {
			b.Run("no key", func(b *testing.B) {
				for b.Loop() {
					serve(b, "")
				}
			})
		}
		rounds := 0 // b.Loop may start over
		b.Run(kind+"/first run", func(b *testing.B) {
			rounds++
			n := 0
			for b.Loop() {
				n++
				serve(b, fmt.Sprintf("%d-%d", rounds, n))
			}
		})
		b.Run(kind+"/replay", func(b *testing.B) {
			serve(b, "again")
			for b.Loop() {
				serve(b, "again")
			}
		})
	}
}
