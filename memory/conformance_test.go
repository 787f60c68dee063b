package memory_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(tb testing.TB, now func() time.Time) sluice.Store {
		return open(tb, memory.Config{Clock: now})
	})
}
