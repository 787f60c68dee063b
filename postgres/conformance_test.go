package postgres_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/storetest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// open is a store on that database that ends with the test.
func open(tb testing.TB, config postgres.Config) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), config)
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

func TestConformance(t *testing.T) {
	address := postgrestest.Database(t)
	storetest.Options{Steps: 3000}.Run(t, func(tb testing.TB, now func() time.Time) sluice.Store {
		return open(tb, postgres.Config{Address: address, Clock: now})
	})
}
