package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// TestErrorsSayWhatToDo opens stores that cannot work.
func TestErrorsSayWhatToDo(t *testing.T) {
	server := postgrestest.Shared(t)
	good := postgrestest.Database(t)
	for _, sql := range []string{
		"CREATE ROLE stranger LOGIN",
		"CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'",
	} {
		if err := server.Exec("postgres", sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		config postgres.Config
		want   string
	}{
		{"no address", postgres.Config{}, "Address: must be given"},
		{"not an address", postgres.Config{Address: "postgres://a b c"}, "postgres://user:password@host:5432/database"},
		{"a bad port", postgres.Config{Address: "postgres://127.0.0.1:port/x"}, "postgres://user:password@host:5432/database"},
		{"nobody there", postgres.Config{Address: "postgres://postgres@127.0.0.1:1/x?sslmode=disable"}, "connection refused"},
		{"no such database", postgres.Config{Address: server.Address("nowhere")}, "create the database first"},
		{"no rights", postgres.Config{Address: strings.Replace(good, "postgres@", "stranger@", 1)}, "GRANT CREATE ON DATABASE"},
		{"another encoding", postgres.Config{Address: server.Address("latin")}, "ENCODING 'UTF8'"},
		{"a schema that is not a name", postgres.Config{Address: good, Schema: "a; DROP"}, "Schema"},
		{"too few connections", postgres.Config{Address: good, MaxConns: 1}, "MaxConns"},
		{"no time", postgres.Config{Address: good, Timeout: time.Millisecond}, "Timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := postgres.Open(t.Context(), c.config)
			if err == nil {
				s.Close() //nolint:errcheck // it should not be
				t.Fatal("it opened")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "postgres: ") {
				t.Errorf("got %q, want it to say %q", err, c.want)
			}
		})
	}
}

// TestRoleWithItsOwnSchema opens a store as a user who may not
// create schemas, in one that was made for it.
func TestRoleWithItsOwnSchema(t *testing.T) {
	address := postgrestest.Database(t)
	server := postgrestest.Shared(t)
	if err := server.Exec("postgres", "CREATE ROLE limiter LOGIN"); err != nil {
		t.Fatal(err)
	}
	postgrestest.Exec(t, address, "CREATE SCHEMA limits AUTHORIZATION limiter")
	s := open(t, postgres.Config{Address: strings.Replace(address, "postgres@", "limiter@", 1), Schema: "limits"})
	take(t, s, true)
}
