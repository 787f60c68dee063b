package postgrestest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// StartStandby starts a standby of the server for the time of a test, and returns
// the address of a database there.
func (s *Server) StartStandby(tb testing.TB, database string) (*Server, string) {
	tb.Helper()
	standby, err := s.standby()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := standby.Close(); err != nil {
			tb.Error(err)
		}
	})
	at, err := url.Parse(database)
	if err != nil {
		tb.Fatal(err)
	}
	at.Host = "127.0.0.1:" + strconv.Itoa(standby.Port)
	return standby, at.String()
}

func (s *Server) standby() (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-standby-")
	if err != nil {
		return nil, err
	}
	to := &Server{dir: dir, settings: s.settings}
	if err := giveAway(dir); err != nil {
		return nil, err
	}
	backup := exec.Command(filepath.Join(bin, "pg_basebackup"), "-D", to.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(s.Port), "-U", "postgres", "-R", "-c", "fast", "-X", "stream", "--no-sync")
	backup.Dir, backup.SysProcAttr = dir, unprivileged()
	if out, err := backup.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	if to.Port, err = freePort(); err != nil {
		return nil, err
	}
	return to, to.Start()
}
