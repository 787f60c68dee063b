package postgres_test

import (
	"sync"
	"testing"

	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

const versions = "SELECT count(*) FROM sluice.migration"

func TestMigrationsHappenOnce(t *testing.T) {
	address := postgrestest.Database(t)
	first := open(t, postgres.Config{Address: address})
	n := number(t, address, versions)
	if n == 0 {
		t.Fatal("no migrations are recorded")
	}
	take(t, first, demand("a", "1/hour", 1), true)
	again := open(t, postgres.Config{Address: address})
	if got := number(t, address, versions); got != n {
		t.Errorf("%d migrations after opening again, want %d", got, n)
	}
	take(t, again, demand("a", "1/hour", 1), false)
}

func TestManyMigrateAtOnce(t *testing.T) {
	address := postgrestest.Database(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := postgres.Open(t.Context(), postgres.Config{Address: address})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := number(t, address, versions); got == 0 || got != number(t, address, "SELECT count(DISTINCT name) FROM sluice.migration") {
		t.Errorf("%d migrations are recorded, not each once", got)
	}
}

// TestNewerSchema opens databases that a later Sluice has migrated.
func TestNewerSchema(t *testing.T) {
	address := postgrestest.Database(t)
	open(t, postgres.Config{Address: address})

	run(t, address, "INSERT INTO sluice.migration (version, name, oldest) VALUES (1000, 'later', 1)")
	take(t, open(t, postgres.Config{Address: address}), demand("a", "1/hour", 1), true) // it still has what we call

	run(t, address, "INSERT INTO sluice.migration (version, name, oldest) VALUES (1001, 'much later', 1000)")
	s, err := postgres.Open(t.Context(), postgres.Config{Address: address})
	if err == nil {
		s.Close() //nolint:errcheck // it should not be
		t.Fatal("it opened a schema that is too new")
	}
	t.Log(err)
}

// TestSchemas keeps two installations apart in one database.
func TestSchemas(t *testing.T) {
	address := postgrestest.Database(t)
	a := open(t, postgres.Config{Address: address, Schema: "one"})
	b := open(t, postgres.Config{Address: address, Schema: "two"})
	take(t, a, demand("a", "1/hour", 1), true)
	take(t, b, demand("a", "1/hour", 1), true)
	take(t, a, demand("a", "1/hour", 1), false)
	if n := number(t, address, "SELECT count(*) FROM pg_namespace WHERE nspname = 'sluice'"); n != 0 {
		t.Error("there is a schema sluice that nobody asked for")
	}
}
