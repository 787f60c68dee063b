package idempotency_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/idempotency/idempotencytest"
)

func TestMemoryConformance(t *testing.T) {
	idempotencytest.Config{}.Run(t, func(tb testing.TB, now func() time.Time) idempotency.Store {
		s, err := idempotency.NewMemory(idempotency.MemoryConfig{Clock: now})
		if err != nil {
			tb.Fatal(err)
		}
		return s
	})
}
