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

	"google.golang.org/grpc"

	"github.com/sluice-go/sluice/server"
)

// group is the servers of one process: they start together, and stop together
// without losing a request.
type group struct {
	log       *slog.Logger
	listeners map[string]net.Listener
	tls       *tls.Config // nil without
	stoppers  []func(context.Context) error
	draining  atomic.Bool
	failed    chan error
	hangup    chan os.Signal // heard from before anything is served
	running   sync.WaitGroup

	serving context.Context // ends when requests are to finish
	stop    context.CancelFunc

	// The admin port goes on until they have, for those who watch.
	watched   context.Context
	unwatch   context.CancelFunc
	overseers sync.WaitGroup
}

func newGroup(config *tls.Config, log *slog.Logger) *group {
	g := &group{log: log, listeners: map[string]net.Listener{}, tls: config, failed: make(chan error, 8), hangup: make(chan os.Signal, 1)}
	signal.Notify(g.hangup, syscall.SIGHUP)
	g.serving, g.stop = context.WithCancel(context.Background())
	g.watched, g.unwatch = context.WithCancel(context.Background())
	return g
}

// listen opens the address of a flag.
func (g *group) listen(flag, address string) error {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; choose another address with --%s", err, flag)
	}
	if err != nil {
		return err
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
	l := g.listeners[flag]
	g.running.Go(func() { g.answer(g.serving, l, handler) })
}

// oversee answers on the listener of a flag for longer than all others.
func (g *group) oversee(flag string, handler http.Handler) {
	l := g.listeners[flag]
	g.overseers.Go(func() { g.answer(g.watched, l, handler) })
}

func (g *group) answer(ctx context.Context, l net.Listener, handler http.Handler) {
	if err := server.ServeTLS(ctx, l, handler, g.tls, g.log); err != nil {
		g.failed <- err
	}
}

// serveWith has hs answer on the listener of a flag. after is called when it
// has, for what outlives its connections.
func (g *group) serveWith(flag string, hs *http.Server, after func(context.Context) error) {
	l := g.listeners[flag]
	hs.TLSConfig = g.tls
	answered := make(chan struct{})
	g.run(func() error {
		defer close(answered)
		return server.Run(g.serving, l, hs)
	}, func(ctx context.Context) error {
		<-answered
		return after(ctx)
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

// work has something run beside until requests are to finish, and waits for it as
// for those.
func (g *group) work(run func(context.Context)) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run(g.serving)
	}()
	g.stoppers = append(g.stoppers, func(ctx context.Context) error {
		select {
		case <-ended:
		case <-ctx.Done():
			g.log.Warn("what was under way at the end is given up")
		}
		return nil
	})
}

// serveGRPC answers gRPC. drained is called before it stops, so that health
// checks send clients elsewhere.
func (g *group) serveGRPC(address string, s *grpc.Server, drained func()) error {
	if err := g.listen("grpc-listen", address); err != nil {
		return err
	}
	l := g.listeners["grpc-listen"]
	g.run(func() error { return s.Serve(l) }, func(ctx context.Context) error {
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

// endStream ends calls that go on for as long as the client likes, such as
// watching health, when the others are to finish.
func (g *group) endStream(service any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(g.serving, cancel)()
	return handle(service, &endingStream{stream, ctx})
}

type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *endingStream) Context() context.Context { return s.ctx }

// until serves until ctx is done or a server fails, and then finishes the
// requests that have begun. A hangup reloads.
func (g *group) until(ctx context.Context, reload func() error) error {
	defer signal.Stop(g.hangup)
	var failed error
	for waiting := true; waiting; {
		select {
		case <-g.hangup:
			if err := reload(); err != nil {
				g.log.Error("reload failed; the previous settings stay in effect", "error", err)
			}
		case failed = <-g.failed:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	g.draining.Store(true)
	g.stop()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), server.Drain)
	defer cancel()
	errs := make([]error, len(g.stoppers))
	var stopping sync.WaitGroup
	for i, stop := range g.stoppers {
		stopping.Go(func() { errs[i] = stop(limited) })
	}
	stopping.Wait()
	g.running.Wait()
	g.unwatch()
	g.overseers.Wait()
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
