package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"syscall"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server"
)

const serveHelp = `Usage: sluice serve [--listen address]

Answers takes over HTTP from memory, until interrupted. What was used is
forgotten then. There is no access control: keep it on a loopback address or
a private network.

Flags:
  --listen address   where to listen (default 127.0.0.1:8080); port 0 picks one

Endpoints:
  GET  /healthz      200 while it runs
  POST /v1/take      200 if allowed, 429 if refused

Examples:
  sluice serve
  curl -d '{"entity":"alice"}' http://127.0.0.1:8080/v1/take
  curl -d '{"entity":"alice","resource":"mail","cost":3,"limits":{"daily":"50/day UTC","rate":"5/s"}}' \
       http://127.0.0.1:8080/v1/take
`

// sampleName and sampleLimit apply to takes that bring no limits.
const sampleName = "rpm"

var sampleLimit = sluice.MustParse("100/minute burst 20")

func serve(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:8080", "")
	if helped, err := parse(flags, args, serveHelp, stdout); helped || err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(*listen); err != nil {
		return &usageError{fmt.Sprintf("serve: --listen %q: want an address such as 127.0.0.1:8080", *listen)}
	}
	log := slog.New(slog.NewTextHandler(stderr, nil))
	store, err := memory.Open(memory.Config{Log: log})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, store.Close()) }()
	handler, err := server.Handler(server.Config{
		Limiter: sluice.New(store),
		Limits:  map[string]sluice.Limit{sampleName: sampleLimit},
		Log:     log,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w; choose another address with --listen", err)
	}
	if err != nil {
		return err
	}
	if err := greet(stdout, reachable(listener.Addr())); err != nil {
		listener.Close() //nolint:errcheck // nothing was served yet
		return err
	}
	if err := server.Serve(ctx, listener, handler, log); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "stopped; every request that had begun was answered")
	return err
}

// greet says what is served, where, and how to try it.
func greet(w io.Writer, address string) error {
	_, err := fmt.Fprintf(w, `sluice answers takes on http://%[1]s, from memory

A take that brings no limits gets this one, for each entity and resource:
  %[2]s  %[3]s

Try it (more than %[4]d times in a row, and it says when to come back):
  curl -d '{"entity":"alice","resource":"api"}' http://%[1]s/v1/take

Stop it with Ctrl-C.
`, address, sampleName, sampleLimit, sampleLimit.Capacity().Whole())
	return err
}

// reachable is an address under which a listener can be asked: one that
// listens everywhere is also here.
func reachable(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return a.String()
}
