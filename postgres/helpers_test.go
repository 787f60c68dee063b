package postgres_test

import (
	"context"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// open is a store that ends with the test.
func open(tb testing.TB, config postgres.Config) *limitstore.Store {
	tb.Helper()
	s, err := limitstore.Open(context.Background(), config)
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

// take takes the only token of a bucket, which is or is not to be allowed.
func take(tb testing.TB, s sluice.Store, want bool) {
	tb.Helper()
	got, err := sluice.New(s).Take(context.Background(), sluice.Demand{
		Key: sluice.Key{Entity: "a", Resource: "api", Limit: "rps"}, Limit: sluice.MustParse("1/hour"),
	})
	if err != nil {
		tb.Fatal(err)
	}
	if got.Allowed != want {
		tb.Fatalf("allowed is %t, want %t", got.Allowed, want)
	}
}
