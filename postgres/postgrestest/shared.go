package postgrestest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Start starts a server of the test's own, for tests that stop it.
func Start(tb testing.TB, settings ...string) *Server {
	tb.Helper()
	s, err := New(settings...)
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

// Shared is one server for all tests of the binary, started when first
// needed. [Main] stops it.
func Shared(tb testing.TB) *Server {
	tb.Helper()
	shared.once.Do(func() { shared.server, shared.err = New() })
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server
}

// Database is the address of an empty database in the shared server, which
// goes away with the test.
func Database(tb testing.TB) string {
	tb.Helper()
	return Shared(tb).Database(tb)
}

// Database is the address of an empty database, which goes away with the
// test.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("sluice_%d", s.names.Add(1))
	if err := s.Exec("postgres", "CREATE DATABASE "+name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// With FORCE, so that a test that leaves connections behind fails
		// for its own reason and not for this one.
		if err := s.Exec("postgres", "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Logf("drop database %s: %v", name, err)
		}
	})
	return s.Address(name)
}

// Main runs the tests, then stops the shared server. Call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
