package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// StartPgBouncer puts a PgBouncer in transaction mode in front of the server,
// with few connections of its own, and answers the address of the database
// through it.
func (s *Server) StartPgBouncer(tb testing.TB, address string) string {
	tb.Helper()
	pooled, err := s.startPgBouncer(tb, address)
	if err != nil {
		tb.Fatal(err)
	}
	return pooled
}

func (s *Server) startPgBouncer(tb testing.TB, address string) (string, error) {
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		bin = "/usr/sbin/pgbouncer" // which is not everybody's path
	}
	dir, err := os.MkdirTemp("", "sluice-pgbouncer-")
	if err != nil {
		return "", err
	}
	tb.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // temporary anyway
	if err := giveAway(dir); err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	users := filepath.Join(dir, "users.txt")
	config := filepath.Join(dir, "pgbouncer.ini")
	lines := []string{
		"[databases]",
		fmt.Sprintf("* = host=127.0.0.1 port=%d", s.Port),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", port),
		"unix_socket_dir =",
		"auth_type = trust",
		"auth_file = " + users,
		"pool_mode = transaction",
		"default_pool_size = 3",
	}
	if err := errors.Join(
		os.WriteFile(users, []byte(`"postgres" ""`+"\n"), 0o644),
		os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o644),
	); err != nil {
		return "", err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return "", err
	}
	defer log.Close() //nolint:errcheck // PgBouncer has its own handle
	cmd := exec.Command(bin, "-q", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = dir, log, log, unprivileged()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if err := cmd.Start(); err != nil {
		return "", err
	}
	tb.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it has nothing to save
		cmd.Wait()         //nolint:errcheck // killed
	})
	pooled := strings.Replace(address, fmt.Sprintf(":%d/", s.Port), fmt.Sprintf(":%d/", port), 1)
	return pooled, answers(pooled, log.Name())
}

// answers waits until something at address does.
func answers(address, log string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			text, _ := os.ReadFile(log)
			return fmt.Errorf("pgbouncer does not answer: %w\n%s", err, text)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
