// Package redisserver starts a Redis server for a measurement. The helpers of
// package redistest need a test around them.
package redisserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Server is a redis-server that keeps nothing on disk.
type Server struct {
	Address string // host and port

	dir   string
	cmd   *exec.Cmd
	ended chan struct{}
}

// Start starts a server on a free port of the loopback interface, and waits
// until it answers.
func Start() (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sluice-redis-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("redis-server: %w", err), os.RemoveAll(dir))
	}
	s := &Server{Address: fmt.Sprintf("127.0.0.1:%d", port), dir: dir, cmd: cmd, ended: make(chan struct{})}
	go func() {
		cmd.Wait() //nolint:errcheck // that it ended is what counts
		close(s.ended)
	}()
	if err := s.ready(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) ready() error {
	deadline := time.After(20 * time.Second)
	for {
		if s.answers() {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("redis-server ended at once")
		case <-deadline:
			return errors.New("redis-server does not answer")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close() //nolint:errcheck // nothing was written through it that matters
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, 7)
	n, err := conn.Read(answer)
	return err == nil && string(answer[:n]) == "+PONG\r\n"
}

// Close ends the server.
func (s *Server) Close() error {
	err := s.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-s.ended
	return errors.Join(err, os.RemoveAll(s.dir))
}
