// Package dynamodbtest starts a real server that speaks DynamoDB's protocol, for
// tests. It listens on a loopback port that is free, keeps nothing on disk unless
// it is to be killed and started again, and ends with the test.
package dynamodbtest

import (
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice/dynamodb"
)

// Server is a server that a test has started.
type Server struct {
	tb   testing.TB
	port int
	dir  string
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a server. What it has survives Kill and Restart.
func Start(tb testing.TB) *Server {
	tb.Helper()
	Credentials()
	s := &Server{tb: tb, port: freePort(tb), dir: tb.TempDir()}
	tb.Cleanup(s.Kill)
	s.Restart()
	return s
}

// Credentials gives the process credentials that such a server accepts. The SDK
// would look for others all over the network.
func Credentials() {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		os.Setenv(name, value) //nolint:errcheck // the name is valid
	}
}

func freePort(tb testing.TB) int {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Addr is host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the address of a table at host and port, as package dynamodb takes it.
func URL(addr, table string) string {
	return "dynamodb://" + table + "?region=eu-west-1&endpoint=" + url.QueryEscape("http://"+addr)
}

// Table sets up a new table and returns its address.
func (s *Server) Table() string {
	s.tb.Helper()
	address := URL(s.Addr(), "test-"+strings.ToLower(rand.Text()))
	if err := dynamodb.Setup(context.Background(), dynamodb.Config{Address: address, Timeout: time.Minute}, dynamodb.Definition{}); err != nil {
		s.tb.Fatalf("dynamodbtest: %v", err)
	}
	return address
}

// program returns where the server is, which make deps installs.
func program(tb testing.TB) string {
	tb.Helper()
	if path, err := exec.LookPath("dynoxide"); err == nil {
		return path
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		path := filepath.Join(dir, "bin/dynamodb/node_modules/@dynoxide/linux-x64/dynoxide")
		if _, err := os.Stat(path); err == nil {
			return path
		}
		dir = filepath.Dir(dir)
	}
	tb.Fatal("dynamodbtest: the server is missing: run make deps")
	return ""
}

// Restart starts the server, again if it was killed.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command(program(s.tb), "serve", "--host", "127.0.0.1", "--port", strconv.Itoa(s.port), "--db-path", filepath.Join(s.dir, "db"))
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// If the test is killed, so is the server.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatalf("dynamodbtest: %v", err)
	}
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		cmd.Wait() //nolint:errcheck // it is killed, mostly
		close(done)
	}(s.cmd, s.done)
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", s.Addr())
		if err == nil {
			conn.Close() //nolint:errcheck // it only tried
			return
		}
		select {
		case <-s.done:
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.tb.Fatalf("dynamodbtest: the server ended:\n%s", text)
		default:
		}
		if time.Since(start) > time.Minute {
			s.tb.Fatalf("dynamodbtest: no answer: %v", err)
		}
	}
}

// Kill ends the server as kill -9 does.
func (s *Server) Kill() { s.signal(syscall.SIGKILL, true) }

// Pause stops it in its tracks, as a machine that hangs; Resume lets it go on.
func (s *Server) Pause()  { s.signal(syscall.SIGSTOP, false) }
func (s *Server) Resume() { s.signal(syscall.SIGCONT, false) }

func (s *Server) signal(sig syscall.Signal, wait bool) {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	s.cmd.Process.Signal(sig) //nolint:errcheck // it may have ended
	if wait {
		<-s.done
		s.cmd = nil
	}
}

// Through is the address of a table with another host and port.
func Through(address, addr string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // this package has made it
	}
	return URL(addr, u.Host)
}
