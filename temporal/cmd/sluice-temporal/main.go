// Command sluice-temporal starts a Temporal workflow for each call of a plan's
// HTTP target:
//
//	sluice-temporal --workflow pay --secret-file webhook.secret
//
// Sluice calls it when a slot has come, so services in any language get
// workflows in slots by assigning events over HTTP. GET /healthz reports whether
// Temporal can be reached.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-go/sluice/temporal"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], func(address net.Addr) { fmt.Printf("sluice-temporal listens on http://%s\n", address) })
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sluice-temporal:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It calls ready once it listens.
func run(ctx context.Context, args []string, ready func(net.Addr)) error {
	flags := flag.NewFlagSet("sluice-temporal", flag.ContinueOnError)
	var (
		to       connection
		config   temporal.Config
		listen   = flags.String("listen", "127.0.0.1:8090", "address to listen on")
		secrets  = flags.String("secret-file", "", "file with the secrets that calls may be signed with, one in a line")
		unsigned = flags.Bool("unsigned", false, "accept calls that are not signed")
	)
	to.flags(flags)
	flags.StringVar(&config.Workflow, "workflow", "", "type of the workflows to start")
	flags.StringVar(&config.Options.TaskQueue, "task-queue", temporal.DefaultTaskQueue, "their task queue")
	if err := flags.Parse(args); err != nil {
		return err
	}
	keys, err := readSecrets(*secrets)
	if err != nil {
		return err
	}
	if (len(keys) == 0) != *unsigned {
		return errors.New("give either --secret-file with a secret, or --unsigned")
	}
	options, err := to.options()
	if err != nil {
		return err
	}
	options.Logger = log.NewStructuredLogger(slog.Default())
	if config.Client, err = client.NewLazyClient(options); err != nil {
		return err
	}
	defer config.Client.Close()
	target, err := temporal.Target(config, keys...)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", target)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if _, err := config.Client.CheckHealth(r.Context(), nil); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return serve(ctx, *listen, mux, ready)
}

func serve(ctx context.Context, address string, handler http.Handler, ready func(net.Addr)) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	ready(listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return server.Shutdown(last)
}

// readSecrets returns the lines of a file.
func readSecrets(name string) ([]string, error) {
	if name == "" {
		return nil, nil
	}
	content, err := os.ReadFile(name)
	return strings.Fields(string(content)), err
}
