package catalogstore_test

import (
	"context"
	"testing"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/catalog/catalogtest"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/catalogstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// open is a catalog that ends with the test.
func open(tb testing.TB, config postgres.Config) *catalogstore.Store {
	tb.Helper()
	c, err := catalogstore.Open(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

func TestCatalog(t *testing.T) {
	address := postgrestest.Database(t)
	catalogtest.Run(t, func(tb testing.TB) catalog.Store { return open(tb, postgres.Config{Address: address}) })
}

// TestCatalogThroughPgBouncer runs the suite through PgBouncer in transaction
// mode, where nothing can be listened to.
func TestCatalogThroughPgBouncer(t *testing.T) {
	address := postgrestest.Database(t)
	pooled := postgrestest.Shared(t).StartPgBouncer(t, address)
	catalogtest.Run(t, func(tb testing.TB) catalog.Store { return open(tb, postgres.Config{Address: pooled}) })
}
