package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func localCommand() *cobra.Command {
	var l local
	return offline(&cobra.Command{
		Use: "local", Short: "start Redis and PostgreSQL for development",
		Long: `They listen on free ports of the loopback address, without passwords, until
Ctrl-C. Without --dir the data is in a temporary folder that is removed at the
end.`,
		Example: `sluice local
sluice local --dir ./data
sluice local --only redis`,
	}, func(f *pflag.FlagSet) {
		f.StringVar(&l.dir, "dir", "", "`folder` in which the data is kept")
		choose(f, &l.only, "only", "", "start only this one", "redis", "postgres")
	}, func(ctx context.Context, c *call) error {
		return l.run(ctx, c)
	})
}

// local is servers for development.
type local struct {
	dir, only string

	temporary bool
	servers   []*localServer
	addresses struct {
		Redis    string   `json:"redis,omitempty"`
		Postgres string   `json:"postgres,omitempty"`
		Folder   string   `json:"folder"`
		Serve    []string `json:"serve"` // the flags for sluice serve
	}
}

func (l *local) run(ctx context.Context, c *call) (err error) {
	if err := l.folder(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, l.stop())
		if l.temporary {
			err = errors.Join(err, os.RemoveAll(l.dir))
		}
	}()
	if l.only != "postgres" {
		if err := l.startRedis(ctx); err != nil {
			return err
		}
	}
	if l.only != "redis" {
		if err := l.startPostgres(ctx); err != nil {
			return err
		}
	}
	if err := l.greet(c); err != nil {
		return err
	}
	ended := make(chan *localServer, len(l.servers))
	for _, s := range l.servers {
		go func() { <-s.ended; ended <- s }()
	}
	select {
	case <-ctx.Done():
		return c.say("stopped")
	case s := <-ended:
		return fmt.Errorf("%s exited unexpectedly:\n%s", s.name, s.lastWords())
	}
}

func (l *local) folder() (err error) {
	if l.dir == "" {
		l.temporary = true
		if l.dir, err = os.MkdirTemp("", "sluice-local-"); err != nil {
			return err
		}
	} else {
		if l.dir, err = filepath.Abs(l.dir); err != nil {
			return err
		}
		if err := os.MkdirAll(l.dir, 0o755); err != nil {
			return err
		}
	}
	l.addresses.Folder = l.dir
	return os.Chmod(l.dir, 0o755) // PostgreSQL's user must get through
}

func (l *local) greet(c *call) error {
	if l.addresses.Redis != "" {
		l.addresses.Serve = append(l.addresses.Serve, "--store", l.addresses.Redis)
	} else {
		l.addresses.Serve = append(l.addresses.Serve, "--store", l.addresses.Postgres)
	}
	if l.addresses.Postgres != "" {
		l.addresses.Serve = append(l.addresses.Serve, "--catalog", l.addresses.Postgres)
	}
	where := fields{{"Redis", l.addresses.Redis}, {"PostgreSQL", l.addresses.Postgres}, {"folder", l.dir}}
	return c.print(l.addresses, fmt.Sprintf("%s\nIn another terminal:\n  sluice serve %s\n\nStop with Ctrl-C.\n", where, strings.Join(l.addresses.Serve, " ")))
}

// freePort is a port that nobody listens on.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (l *local) startRedis(ctx context.Context) error {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("redis-server is not installed: on Debian it is in the package redis-server; or use --only postgres")
	}
	dir := filepath.Join(l.dir, "redis")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	keep := "yes"
	if l.temporary {
		keep = "no"
	}
	s, err := l.start("Redis", dir, syscall.SIGTERM, false, binary, "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--dir", dir, "--save", "", "--appendonly", keep, "--daemonize", "no")
	if err != nil {
		return err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	l.addresses.Redis = "redis://" + address
	return s.await(ctx, func(ctx context.Context) error { return pingRedis(ctx, address) })
}

// pingRedis asks a Redis whether it is there and has loaded its data.
func pingRedis(ctx context.Context, address string) (err error) {
	connection, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, connection.Close()) }()
	if err := connection.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(connection, "PING\r\n"); err != nil {
		return err
	}
	answer := make([]byte, 7)
	if _, err := io.ReadFull(connection, answer); err != nil {
		return err
	}
	if string(answer) != "+PONG\r\n" {
		return fmt.Errorf("redis answers %q", answer)
	}
	return nil
}

// postgresBinaries is the folder of the newest PostgreSQL.
func postgresBinaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(real), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errors.New("PostgreSQL is not installed: on Debian it is in the package postgresql; or use --only redis")
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) })), nil
}

func (l *local) startPostgres(ctx context.Context) error {
	binaries, err := postgresBinaries()
	if err != nil {
		return err
	}
	dir := filepath.Join(l.dir, "postgres")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := giveToPostgres(dir); err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); errors.Is(err, os.ErrNotExist) {
		initdb := exec.CommandContext(ctx, filepath.Join(binaries, "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C")
		initdb.Dir, initdb.SysProcAttr = dir, childOf(true)
		if out, err := initdb.CombinedOutput(); err != nil {
			return fmt.Errorf("initdb: %w\n%s", err, bytes.TrimSpace(out))
		}
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	args := []string{"-D", data, "-p", strconv.Itoa(port), "-k", "", "-c", "listen_addresses=127.0.0.1"}
	if l.temporary {
		args = append(args, "-c", "fsync=off") // it is thrown away anyway
	}
	s, err := l.start("PostgreSQL", dir, syscall.SIGINT, true, filepath.Join(binaries, "postgres"), args...)
	if err != nil {
		return err
	}
	base := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/", port)
	l.addresses.Postgres = base + "sluice"
	return s.await(ctx, func(ctx context.Context) error { return createDatabase(ctx, base+"postgres") })
}

// createDatabase makes the database sluice, unless it is there.
func createDatabase(ctx context.Context, address string) error {
	connection, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer connection.Close(ctx) //nolint:errcheck // nothing is under way
	var there bool
	if err := connection.QueryRow(ctx, `select exists (select from pg_database where datname = 'sluice')`).Scan(&there); err != nil || there {
		return err
	}
	_, err = connection.Exec(ctx, `create database sluice`)
	return err
}
