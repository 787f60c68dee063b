package memory_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/memory"
)

func open(tb testing.TB, config memory.Config) *memory.Store {
	tb.Helper()
	s, err := memory.Open(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// newClock returns a clock that only the test moves.
func newClock() *testclock.Clock { return testclock.New(time.Unix(1_700_000_000, 0)) }
