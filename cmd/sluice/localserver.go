package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// localServer is a server that was started for development.
type localServer struct {
	name    string
	log     string
	ending  os.Signal
	process *exec.Cmd
	ended   chan struct{}
}

// start starts a server in a folder, where its output goes, too.
func (l *local) start(name, dir string, ending os.Signal, asPostgres bool, binary string, args ...string) (*localServer, error) {
	s := &localServer{name: name, log: filepath.Join(dir, "log"), ending: ending, ended: make(chan struct{})}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.process = exec.Command(binary, args...)
	s.process.Dir, s.process.Stdout, s.process.Stderr, s.process.SysProcAttr = dir, log, log, childOf(asPostgres)
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	l.servers = append(l.servers, s)
	go func() {
		s.process.Wait() //nolint:errcheck // how it ended is in its log
		close(s.ended)
	}()
	return s, nil
}

// await waits until a server answers.
func (s *localServer) await(ctx context.Context, asks func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := asks(limited)
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s did not start:\n%s", s.name, s.lastWords())
		case <-limited.Done():
			return fmt.Errorf("%s does not answer: %w\n%s", s.name, err, s.lastWords())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lastWords are the last lines of the server's log.
func (s *localServer) lastWords() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(len(lines)-10, 0):], []byte("\n")))
}

// stop ends all servers in peace, and those that do not end by force.
func (l *local) stop() error {
	var errs []error
	for _, s := range l.servers {
		if err := s.process.Process.Signal(s.ending); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
	}
	patience := time.After(10 * time.Second)
	for _, s := range l.servers {
		select {
		case <-s.ended:
		case <-patience:
			errs = append(errs, fmt.Errorf("%s did not stop and was killed", s.name), s.process.Process.Kill())
			<-s.ended
		}
	}
	return errors.Join(errs...)
}
