package limitstore_test

import (
	"context"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	helpIfAsked()
	postgrestest.Main(m)
}

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

// slow hardly refills, so that nothing that was taken is forgotten.
const slow = "1/week burst 1000000"

func demand(entity, limit string, tokens int64) sluice.Demand {
	return sluice.Demand{
		Key:   sluice.Key{Entity: entity, Resource: "api", Limit: "rps"},
		Limit: sluice.MustParse(limit),
		Cost:  sluice.Tokens(tokens),
	}
}

// take takes from one bucket, which is or is not to be allowed.
func take(tb testing.TB, s sluice.Store, d sluice.Demand, want bool) sluice.Decision {
	tb.Helper()
	got, err := sluice.New(s).Take(context.Background(), d)
	if err != nil {
		tb.Fatal(err)
	}
	if got.Allowed != want {
		tb.Fatalf("take of %s: allowed is %t, want %t", d.Cost, got.Allowed, want)
	}
	return got
}

// consumed is the net consumption of all buckets of a namespace.
func consumed(tb testing.TB, s sluice.Store) int64 {
	tb.Helper()
	var total int64
	for q := (sluice.Query{Max: 1000}); ; {
		page, err := s.List(context.Background(), q)
		if err != nil {
			tb.Fatal(err)
		}
		for i := range page.Buckets {
			total += page.Buckets[i].Consumed.Thousandths()
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return total
		}
	}
}
