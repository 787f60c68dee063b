package slotstore_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/postgres/slotstore"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/schedule/scheduletest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// TestSlots runs the conformance suite; each node has its own connections.
func TestSlots(t *testing.T) {
	scheduletest.Run(t, func(t *testing.T) scheduletest.Database {
		address := postgrestest.Database(t)
		return scheduletest.Database{Open: func() schedule.Store {
			return open(t, postgres.Config{Address: address})
		}}
	})
}

// TestSlotsThroughPgBouncer runs the conformance suite through PgBouncer in
// transaction mode, which has only three connections to each database. Flushes
// are heard at the server itself.
func TestSlotsThroughPgBouncer(t *testing.T) {
	server := postgrestest.Shared(t)
	first := postgrestest.Database(t)
	pooler, err := url.Parse(server.StartPgBouncer(t, first))
	if err != nil {
		t.Fatal(err)
	}
	scheduletest.Run(t, func(t *testing.T) scheduletest.Database {
		address := postgrestest.Database(t)
		pooled, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		pooled.Host = pooler.Host
		return scheduletest.Database{Open: func() schedule.Store {
			s := open(t, postgres.Config{Address: pooled.String(), ListenAddress: address})
			if !slotstore.Pooled(s) {
				t.Error("the store did not notice PgBouncer")
			}
			return s
		}}
	})
}

// open is a store of slots that ends with the test.
func open(tb testing.TB, config postgres.Config) *slotstore.Store {
	tb.Helper()
	s, err := slotstore.Open(context.Background(), config)
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
