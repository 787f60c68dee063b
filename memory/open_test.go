package memory_test

import (
	"sync/atomic"
	"testing"
	"time"

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

// testClock is a clock that only the test moves.
type testClock struct{ micros atomic.Int64 }

func newClock() *testClock {
	c := &testClock{}
	c.micros.Store(time.Unix(1_700_000_000, 0).UnixMicro())
	return c
}

func (c *testClock) now() time.Time          { return time.UnixMicro(c.micros.Load()) }
func (c *testClock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }
