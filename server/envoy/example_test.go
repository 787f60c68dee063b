package envoy_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server/envoy"
)

func Example() {
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := `
domain: messaging
descriptors:
  - key: to_number
    rate_limit:
      unit: day
      requests_per_unit: 2
`
	if err := os.WriteFile(filepath.Join(dir, "messaging.yaml"), []byte(file), 0o644); err != nil {
		panic(err)
	}
	store, err := memory.Open(memory.Config{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	service, err := envoy.Open(envoy.Config{Limiter: sluice.New(store), Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	defer service.Close()
	for range 3 {
		answer, err := service.ShouldRateLimit(context.Background(), request("messaging", d("to_number", "2061111111")))
		if err != nil {
			panic(err)
		}
		fmt.Println(answer.GetOverallCode(), answer.GetStatuses()[0].GetLimitRemaining())
	}
	// Output:
	// OK 1
	// OK 0
	// OVER_LIMIT 0
}
