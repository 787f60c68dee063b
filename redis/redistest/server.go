// Package redistest starts real Redis servers for tests: a single one, one
// watched over by Sentinels, and a Cluster. They listen on loopback ports that
// are free, keep nothing on disk, and end with the test.
package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a redis-server, or a redis-sentinel, that a test has started.
type Server struct {
	tb   testing.TB
	port int
	args []string
	name string // of the program
	dir  string
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a Redis with more options, such as "--maxmemory-policy",
// "allkeys-lru".
func Start(tb testing.TB, options ...string) *Server {
	tb.Helper()
	s := newServer(tb, "redis-server")
	s.args = append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
	}, options...)
	s.Restart()
	return s
}

func newServer(tb testing.TB, program string) *Server {
	tb.Helper()
	s := &Server{tb: tb, name: program, port: freePort(tb), dir: tb.TempDir()}
	tb.Cleanup(s.Kill)
	return s
}

// freePort is one that nobody uses, and so that a cluster's bus, which uses
// the port 10000 above, has room.
func freePort(tb testing.TB) int {
	tb.Helper()
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close() //nolint:errcheck // it only found a port
		if port > 55000 {
			continue
		}
		if bus, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10000)); err == nil {
			bus.Close() //nolint:errcheck // it only found a port
			return port
		}
	}
	tb.Fatal("redistest: no free port")
	return 0
}

// Addr is host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL is the server's address as package redis takes it.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Restart starts the server, again if it was killed.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer log.Close()
	s.cmd = exec.Command(s.name, s.args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	// If the test is killed, so is the server.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatalf("redistest: %v (on Debian: apt-get install redis-server redis-sentinel redis-tools)", err)
	}
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		cmd.Wait() //nolint:errcheck // it is killed, mostly
		close(done)
	}(s.cmd, s.done)
	Eventually(s.tb, time.Minute, s.name+" answers", func() bool {
		select {
		case <-s.done:
			text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			s.tb.Fatalf("redistest: %s ended:\n%s", s.name, text)
		default:
		}
		reply, err := s.Do("PING")
		return err == nil && (reply == "PONG" || strings.HasPrefix(reply, "NOAUTH"))
	})
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

// Do sends one command on a connection of its own, and answers the reply as
// text: of arrays the elements in lines.
func (s *Server) Do(args ...string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr(), time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second)) //nolint:errcheck // it is open
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := conn.Write([]byte(b.String())); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(conn))
}

// Must is Do that ends the test on an error.
func (s *Server) Must(args ...string) string {
	s.tb.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		s.tb.Fatalf("redistest: %s: %v", args[0], err)
	}
	return reply
}

func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	kind, rest := line[0], line[1:]
	switch kind {
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 {
			return "", err
		}
		text := make([]byte, n+2)
		if _, err := readFull(r, text); err != nil {
			return "", err
		}
		return string(text[:n]), nil
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return "", err
		}
		var lines []string
		for range n {
			line, err := readReply(r)
			if err != nil {
				return "", err
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n"), nil
	case '-':
		if strings.HasPrefix(rest, "NOAUTH") {
			return rest, nil
		}
		return "", fmt.Errorf("%s", rest)
	}
	return rest, nil
}

func readFull(r *bufio.Reader, b []byte) (int, error) {
	n := 0
	for n < len(b) {
		m, err := r.Read(b[n:])
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

// Eventually waits until ok, or ends the test. It asks a real process, so it
// waits in real time.
func Eventually(tb testing.TB, within time.Duration, what string, ok func() bool) time.Duration {
	tb.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > within {
			tb.Fatalf("redistest: not within %s: %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(start)
}
