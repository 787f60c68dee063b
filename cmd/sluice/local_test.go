package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// runLocal starts sluice local and answers where its servers are, and a
// function that ends it.
func runLocal(t *testing.T, args ...string) (found struct {
	Redis, Postgres, Folder string
	Serve                   []string
}, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"local", "--json"}, args...), nil, in, &stderr)
		in.Close()
	}()
	reader := bufio.NewReader(out)
	if err := json.NewDecoder(reader).Decode(&found); err != nil {
		cancel()
		t.Fatalf("%v, exit %d: %s", err, <-ended, &stderr)
	}
	return found, func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("exit %d: %s", code, &stderr)
		}
	}
}

func TestLocal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755); err != nil { // for PostgreSQL's user
		t.Fatal(err)
	}
	found, stop := runLocal(t, "--dir", dir)
	if err := pingRedis(t.Context(), strings.TrimPrefix(found.Redis, "redis://")); err != nil {
		t.Error(err)
	}
	connection, err := pgx.Connect(t.Context(), found.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Exec(t.Context(), "create table kept (n int)"); err != nil {
		t.Error(err)
	}
	connection.Close(t.Context())
	if want := []string{"--store", found.Redis, "--catalog", found.Postgres}; strings.Join(found.Serve, " ") != strings.Join(want, " ") {
		t.Errorf("the flags are %q", found.Serve)
	}
	stop()
	for _, address := range []string{strings.TrimPrefix(found.Redis, "redis://"), strings.TrimSuffix(strings.TrimPrefix(found.Postgres, "postgres://postgres@"), "/sluice")} {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			t.Errorf("%s still answers", address)
		}
	}

	// The folder is kept, and used again.
	again, stop := runLocal(t, "--dir", dir, "--only", "postgres")
	defer stop()
	connection, err = pgx.Connect(t.Context(), again.Postgres)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close(t.Context())
	if _, err := connection.Exec(t.Context(), "select n from kept"); err != nil {
		t.Error(err)
	}
	if again.Redis != "" {
		t.Error("Redis was started, too")
	}
}

func TestLocalLeavesNoTemporaryFolder(t *testing.T) {
	found, stop := runLocal(t, "--only", "redis")
	if _, err := os.Stat(found.Folder); err != nil {
		t.Error(err)
	}
	stop()
	if _, err := os.Stat(found.Folder); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", found.Folder, err)
	}
}

func TestLocalNamesMissingPackages(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"local"}, nil, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), "package redis-server") {
		t.Errorf("exit %d: %s", code, &stderr)
	}
}
