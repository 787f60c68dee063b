package memory_test

import (
	"testing"

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
