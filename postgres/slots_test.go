package postgres_test

import (
	"context"
	"testing"

	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/schedule/scheduletest"
)

// TestSlots runs the conformance suite; each node has its own connections.
func TestSlots(t *testing.T) {
	scheduletest.Run(t, func(t *testing.T) scheduletest.Database {
		address := postgrestest.Database(t)
		return scheduletest.Database{Open: func() schedule.Store {
			return openSlots(t, postgres.Config{Address: address})
		}}
	})
}

// openSlots is a store of slots that ends with the test.
func openSlots(tb testing.TB, config postgres.Config) *postgres.Slots {
	tb.Helper()
	s, err := postgres.OpenSlots(context.Background(), config)
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
