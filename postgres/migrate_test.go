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
	n := postgrestest.Number(t, address, versions)
	if n == 0 {
		t.Fatal("no migrations are recorded")
	}
	take(t, first, true)
	again := open(t, postgres.Config{Address: address})
	if got := postgrestest.Number(t, address, versions); got != n {
		t.Errorf("%d migrations after opening again, want %d", got, n)
	}
	take(t, again, false)
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
	if got := postgrestest.Number(t, address, versions); got == 0 || got != postgrestest.Number(t, address, "SELECT count(DISTINCT name) FROM sluice.migration") {
		t.Errorf("%d migrations are recorded, not each once", got)
	}
}

// TestNewerSchema opens databases that a later Sluice has migrated.
func TestNewerSchema(t *testing.T) {
	address := postgrestest.Database(t)
	open(t, postgres.Config{Address: address})

	postgrestest.Exec(t, address, "INSERT INTO sluice.migration (version, name, oldest) VALUES (1000, 'later', 1)")
	take(t, open(t, postgres.Config{Address: address}), true) // it still has what we call

	postgrestest.Exec(t, address, "INSERT INTO sluice.migration (version, name, oldest) VALUES (1001, 'much later', 1000)")
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
	take(t, a, true)
	take(t, b, true)
	take(t, a, false)
	if n := postgrestest.Number(t, address, "SELECT count(*) FROM pg_namespace WHERE nspname = 'sluice'"); n != 0 {
		t.Error("there is a schema sluice that nobody asked for")
	}
}
