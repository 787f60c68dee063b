package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/sluice-go/sluice/server"
)

// drain is how long requests under way may take to finish at shutdown.
const drain = 15 * time.Second

// group is the servers of one process: they start together, and stop together
// without losing a request.
type group struct {
	log       *slog.Logger
	listeners map[string]net.Listener
	stoppers  []func(context.Context) error
	draining  atomic.Bool
	failed    chan error
	running   sync.WaitGroup

	serving context.Context // ends when requests are to finish
	stop    context.CancelFunc
}

func newGroup(log *slog.Logger) *group {
	g := &group{log: log, listeners: map[string]net.Listener{}, failed: make(chan error, 8)}
	g.serving, g.stop = context.WithCancel(context.Background())
	return g
}

// listen opens the address of a flag.
func (g *group) listen(flag, address string, config *tls.Config) error {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; choose another address with --%s", err, flag)
	}
	if err != nil {
		return err
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	g.listeners[flag] = l
	return nil
}

func (g *group) address(flag string) net.Addr { return g.listeners[flag].Addr() }

// abandon closes what was opened, if it was not served.
func (g *group) abandon() {
	for _, l := range g.listeners {
		l.Close() //nolint:errcheck // it may be closed already
	}
}

// serve answers on the listener of a flag.
func (g *group) serve(flag string, handler http.Handler) {
	g.running.Go(func() {
		if err := server.Serve(g.serving, g.listeners[flag], handler, g.log); err != nil {
			g.failed <- err
		}
	})
}

// run has something serve until it is told to stop.
func (g *group) run(serve func() error, stop func(context.Context) error) {
	g.stoppers = append(g.stoppers, stop)
	g.running.Go(func() {
		if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, grpc.ErrServerStopped) {
			g.failed <- err
		}
	})
}

// serveGRPC answers gRPC. drained is called before it stops, so that health
// checks send clients elsewhere.
func (g *group) serveGRPC(address string, s *grpc.Server, drained func()) error {
	if err := g.listen("grpc-listen", address, nil); err != nil {
		return err
	}
	g.run(func() error { return s.Serve(g.listeners["grpc-listen"]) }, func(ctx context.Context) error {
		drained()
		done := make(chan struct{})
		go func() { s.GracefulStop(); close(done) }()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			s.Stop()
			return ctx.Err()
		}
	})
	return nil
}

// until serves until ctx is done or a server fails, and then finishes the
// requests that have begun. A hangup reloads.
func (g *group) until(ctx context.Context, reload func() error) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	var failed error
	for waiting := true; waiting; {
		select {
		case <-hangup:
			if err := reload(); err != nil {
				g.log.Error("reload: what was before stays in force", "error", err)
			}
		case failed = <-g.failed:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	g.draining.Store(true)
	g.stop()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	errs := make([]error, len(g.stoppers))
	var stopping sync.WaitGroup
	for i, stop := range g.stoppers {
		stopping.Go(func() { errs[i] = stop(limited) })
	}
	stopping.Wait()
	g.running.Wait()
	select {
	case err := <-g.failed:
		errs = append(errs, err)
	default:
	}
	if failed != nil {
		return failed
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("not every request could be finished: %w", err)
	}
	return nil
}
