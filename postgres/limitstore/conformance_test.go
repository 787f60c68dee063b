package limitstore_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/storetest"
)

func TestConformance(t *testing.T) {
	address := postgrestest.Database(t)
	storetest.Config{Steps: 2000}.Run(t, func(tb testing.TB, now func() time.Time) sluice.Store {
		return open(tb, postgres.Config{Address: address, Clock: now})
	})
}
