package limitstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/storetest"
)

// TestPgBouncer runs those checks of the conformance suite that keep many
// connections busy through PgBouncer in transaction mode, which has only three
// to the server.
func TestPgBouncer(t *testing.T) {
	address := postgrestest.Database(t)
	pooled := postgrestest.Shared(t).StartPgBouncer(t, address)
	if !limitstore.Pooled(open(t, postgres.Config{Address: pooled, Clock: time.Now})) {
		t.Error("the store did not notice PgBouncer")
	}
	if limitstore.Pooled(open(t, postgres.Config{Address: address, Clock: time.Now})) {
		t.Error("the store takes the server itself for a pooler")
	}
	for _, check := range (storetest.Config{Steps: 300}).Checks() {
		if !strings.HasPrefix(check.Name, "random") && !strings.HasPrefix(check.Name, "concurrent") {
			continue
		}
		t.Run(check.Name, func(t *testing.T) {
			err := check.Run(t, func(tb testing.TB, now func() time.Time) sluice.Store {
				return open(tb, postgres.Config{Address: pooled, Clock: now})
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWaitingThroughPgBouncer waits with and without an address to listen at.
func TestWaitingThroughPgBouncer(t *testing.T) {
	address := postgrestest.Database(t)
	pooled := postgrestest.Shared(t).StartPgBouncer(t, address)
	direct := open(t, postgres.Config{Address: address})

	deaf := open(t, postgres.Config{Address: pooled})
	waitForPlace(t, address, direct, deaf)
	if limitstore.Hearing(deaf) {
		t.Error("it listens through PgBouncer")
	}

	listening := open(t, postgres.Config{Address: pooled, ListenAddress: address})
	waitForPlace(t, address, direct, listening)
	if !limitstore.Hearing(listening) {
		t.Error("it does not listen")
	}
}
