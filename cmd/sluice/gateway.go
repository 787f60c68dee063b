package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/server"
)

// gatewayFlags are what gateway can be told.
type gatewayFlags struct {
	places
	listening
	upstream string
	maxBody  int64
	timeout  period
}

func gatewayCommand() *cobra.Command {
	var f gatewayFlags
	cmd := &cobra.Command{
		Use: "gateway", Short: "forward the requests that the policy allows to an API",
		Long: `Streams, WebSockets and HTTP/2 pass through unchanged.

The address of --admin-listen also answers status, explain and top, which
change nothing, and replays, which finds and settles writes that were sent
through the gateway: sluice top --server http://ADDRESS. From other machines they
need an API key with the scope sluice:read, a token of --tokens, or a
certificate of --tls-client-ca; metrics need one of the latter two. About
replays callers may ask with their own key.

Signals:
  TERM and INT finish the requests in flight and stop; HUP reloads the policy.`,
		Example: `sluice gateway --upstream http://127.0.0.1:3000 --policy policy.yaml
curl -i http://127.0.0.1:8080/`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.upstream == "" {
				return wrong(cmd, "--upstream is missing: want the address of the API, such as http://127.0.0.1:3000")
			}
			if err := f.places.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return f.serve(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().SortFlags = false
	settings(cmd.Flags(), f.define, f.listening.define, f.places.define)
	return cmd
}

func (f *gatewayFlags) define(to *pflag.FlagSet) {
	to.StringVar(&f.upstream, "upstream", "", "`URL` of the API: http://…, https://…, or h2c://… for HTTP/2 without TLS")
	to.Int64Var(&f.maxBody, "max-body", 0, "largest request in `bytes` (default 10 MiB); -1 for any")
	to.Var(&f.timeout, "response-timeout", "`duration` in which the API must begin its answer (default 1m)")
}

// serve forwards requests until ctx is done.
func (f *gatewayFlags) serve(ctx context.Context, stdout, stderr io.Writer) (err error) {
	log, alarms, err := f.openLog(stderr)
	if err != nil {
		return err
	}
	defer alarms.Close() //nolint:errcheck // it has logged what went wrong
	tlsConfig, err := serverTLS(f.certFile, f.keyFile, f.clientCA, log)
	if err != nil {
		return err
	}
	run := newGroup(tlsConfig, log)
	defer run.abandon()
	if err := run.listen("listen", f.listen); err != nil {
		return err
	}
	s, err := open(ctx, f.places, log)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, s.close()) }()
	s.registry.MustRegister(metrics.Alarms(alarms))
	if err := s.openGate(ctx, f.policy, log); err != nil {
		return err
	}
	keeper, err := s.keeper(log)
	if err != nil {
		return err
	}
	if f.replaysApart() {
		log.Warn("replays are kept in a file of this machine, while limits are shared: a repeated write that reaches another gateway runs again; give all gateways the same --replays",
			"replays", cmp.Or(f.replays.address, f.catalog.address))
	}
	g, err := gateway.New(gateway.Config{
		Upstream: f.upstream, Gate: s.gate, Inner: httplimit.Idempotent(keeper),
		MaxBody: f.maxBody, ResponseTimeout: time.Duration(f.timeout), Log: log,
	})
	if err != nil {
		return err
	}
	if f.admin != "" {
		if err := run.listen("admin-listen", f.admin); err != nil {
			return err
		}
		var access server.Access
		if err := f.readTokens(&access); err != nil {
			return err
		}
		s.reloads = append(s.reloads, func() error { return f.readTokens(&access) })
		guard := func(next http.Handler) (http.Handler, error) {
			return server.Guard(f.onAdmin(access), s.logins, log, next)
		}
		admin, err := s.admin(&run.draining, loopback(f.admin) || f.clientCA != "", guard)
		if err != nil {
			return err
		}
		if err := s.look(admin, f.onAdmin(access), keeper, f.alerts, log); err != nil {
			return err
		}
		run.oversee("admin-listen", admin)
	}
	g.Server().Handler = s.follow(g, f.accessLog, log)
	run.serveWith("listen", g.Server(), g.Shutdown)
	policy := cmp.Or(f.policy, "a sample: 100/minute burst 20 for every caller; --policy is for yours")
	scheme, look := "http", ""
	if tlsConfig != nil {
		scheme = "https"
	}
	if f.admin != "" {
		who := ""
		if !loopback(f.admin) && f.tokens == "" && f.clientCA == "" {
			who = ": nobody may read them; name who may with --tokens or --tls-client-ca"
		}
		look = fmt.Sprintf("  metrics   %[1]s://%[2]s/metrics%[3]s\n  look      sluice top --server %[1]s://%[2]s", scheme, reachable(run.address("admin-listen")), who)
		if name := s.gate.Policy().Namespace; name != catalog.DefaultNamespace {
			look += " --namespace " + name
		}
		look += "\n"
	}
	at := scheme + "://" + reachable(run.address("listen"))
	if _, err := fmt.Fprintf(stdout, "sluice passes requests on from %s to %s\n  policy    %s\n%s\nTry it:\n  curl -i %[1]s/\n\nStop it with Ctrl-C.\n",
		at, redacted(f.upstream), policy, look); err != nil {
		return err
	}
	s.logHealth(time.Duration(f.healthLog), log)
	if err := run.until(ctx, s.reload); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "stopped; every request that had begun was answered")
	return err
}

// look adds the endpoints of the HTTP API that look, and those about replays.
func (s *stack) look(mux *http.ServeMux, access server.Access, keeper *idempotency.Keeper, alerts catalog.Thresholds, log *slog.Logger) error {
	handler, err := server.Handler(server.Config{
		Limiter: s.limiter, Catalog: s.catalog, Activity: s.activity, Gate: s.gate, Replays: keeper, StoreState: s.storeState(), Nodes: s.nodes,
		Thresholds: alerts, Access: access, Logins: s.logins, LookOnly: true, Log: log,
	})
	if err != nil {
		return err
	}
	mux.Handle("/v1/", handler)
	return nil
}

// openGate opens what decides requests by the policy, writes down refusals as it
// says, and watches for callers who go on and on.
func (s *stack) openGate(ctx context.Context, path string, log *slog.Logger) error {
	refusals, err := httplimit.NewAudit(func(r httplimit.Refusal) { r.Log(log) }, 0)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, refusals.Close)
	sanctions := metrics.NewSanctions()
	shared := abuse.Config{Audit: sanctions.Told, Namespace: s.first.Namespace, Log: log}
	if s.degraded != nil {
		shared.Store = s.degraded
	}
	guard, err := abuse.New(shared)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, guard.Close)
	s.guard = guard
	sanctions.Watch(guard)
	requests := metrics.NewRequests()
	s.logins = abuse.NewLogins(log)
	s.registry.MustRegister(metrics.Refusals(refusals), metrics.Logins(s.logins), sanctions, requests)
	s.gate, err = httplimit.Open(ctx, httplimit.Config{
		Limiter: s.limiter, Policy: s.first, Resolver: s.catalog, Verify: httplimit.Keys(s.catalog), Audit: refusals, Abuse: guard, Logins: s.logins, Decided: requests.Decided, Log: log,
	})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, s.gate.Close)
	return s.followPolicy(ctx, path, log)
}
