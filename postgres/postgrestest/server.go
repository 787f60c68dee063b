package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a PostgreSQL server of its own, in a temporary folder.
type Server struct {
	Port int

	dir      string
	settings []string
	process  *exec.Cmd
	ended    chan struct{}
	names    atomic.Int64
}

// New starts a server. Settings are written as in postgresql.conf, such as
// "fsync=on"; without one, a server of tests does not wait for the disk.
func New(settings ...string) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, settings: settings}
	if err := s.initialize(bin); err != nil {
		os.RemoveAll(dir) //nolint:errcheck // the first error matters
		return nil, err
	}
	return s, nil
}

func (s *Server) initialize(bin string) error {
	if err := giveAway(s.dir); err != nil {
		return err
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", s.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.dir, unprivileged()
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	s.Port = port
	return s.Start()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Start starts the server again after Stop or Kill, and waits until it
// answers.
func (s *Server) Start() error {
	bin, err := binaries()
	if err != nil {
		return err
	}
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.Port), "-k", s.dir}
	defaults := []string{"listen_addresses=127.0.0.1", "max_connections=200", "fsync=off", "autovacuum_naptime=10s", "log_checkpoints=off"}
	for _, setting := range slices.Concat(defaults, s.settings) {
		args = append(args, "-c", setting)
	}
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the server has its own handle
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, log, log, unprivileged()
	cmd.SysProcAttr.Pdeathsig = syscall.SIGINT // a fast shutdown, should this process be killed
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // how it ended shows in its log
		close(ended)
	}()
	s.process, s.ended = cmd, ended
	return s.ready()
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// Log is what the server has written.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.log())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// ready waits until the server answers.
func (s *Server) ready() error {
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := s.Exec("postgres", "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("postgres ended: %s", s.Log())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("postgres does not answer: %w\n%s", err, s.Log())
		}
	}
}

// Address is how to connect to a database of the server.
func (s *Server) Address(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.Port, database)
}

// Exec runs statements in a database.
func (s *Server) Exec(database, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.Address(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing was written through it any more
	_, err = conn.Exec(ctx, sql)
	return err
}

// NewDatabase creates an empty database and answers its address.
func (s *Server) NewDatabase() (address string, err error) {
	name := fmt.Sprintf("sluice_%d", s.names.Add(1))
	if err := s.Exec("postgres", "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return s.Address(name), nil
}

// Stop shuts the server down fast: it ends all connections and waits for
// what they are doing to be undone.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Kill ends the server as a crash would: SIGQUIT ends all its processes at
// once, without a checkpoint, and the next Start recovers from the log.
func (s *Server) Kill() error { return s.end(syscall.SIGQUIT) }

func (s *Server) end(signal os.Signal) error {
	select {
	case <-s.ended:
		return nil
	default:
	}
	if err := s.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(time.Minute):
		return errors.Join(errors.New("postgres does not stop"), s.process.Process.Kill())
	}
}

// Close stops the server and removes its folder.
func (s *Server) Close() error { return errors.Join(s.Stop(), os.RemoveAll(s.dir)) }

// binaries is the folder of the newest PostgreSQL installed.
func binaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", errors.New("PostgreSQL is not installed: apt-get install postgresql, or make deps")
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1]), nil
}

func version(path string) int {
	n, err := strconv.Atoi(strings.Split(path, "/")[4])
	if err != nil {
		return 0
	}
	return n
}

// account is whom servers run as: the user postgres if this is root.
func account() (uid, gid int, ok bool) {
	if os.Getuid() != 0 {
		return 0, 0, false
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return 0, 0, false
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, err1 == nil && err2 == nil
}

func unprivileged() *syscall.SysProcAttr {
	uid, gid, ok := account()
	if !ok {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

// giveAway makes a folder the servers' own.
func giveAway(dir string) error {
	uid, gid, ok := account()
	if !ok {
		return nil
	}
	return os.Chown(dir, uid, gid)
}

// freePort is a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

var _ io.Closer = (*Server)(nil)
