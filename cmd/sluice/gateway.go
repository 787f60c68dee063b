package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/metrics"
)

const gatewayHelp = `Usage: sluice gateway --upstream URL [flags]

Passes requests on to an API, as far as the policy lets them. Streams,
WebSockets and HTTP/2 pass through unchanged.

Flags, each also as SLUICE_UPSTREAM and so on, and as "upstream: …" in a file:
  --upstream URL         where the API is: http://…, https://…, or h2c://… for HTTP/2 without TLS
  --config file          a file of these settings, in YAML
  --listen address       where to listen (default 127.0.0.1:8080); port 0 picks one
  --admin-listen address metrics, health and profiles (default off)
  --policy file          the policy; it is followed when it changes
  --store where          memory (the default), memory:FILE, redis://…, postgres://…; see sluice help serve
  --catalog where        a file (default sluice.db), or postgres://…
  --hold=false           ask a shared store for every request; hold no tokens ahead of need
  --max-body bytes       the largest request (default 10 MiB); -1 for any
  --response-timeout d   how long the API may take to begin its answer (default 1m)
  --tls-cert file, --tls-key file, --tls-client-ca file
                         listen with TLS; let in only clients of an authority
  --log format           text (the default) or json
  --access-log           log every request
  --warn-at percent, --critical-at percent
                         of a limit used, at which the log and the metrics say so (default 70 and 90)

Signals:
  TERM and INT finish the requests under way and stop; HUP reads the policy again.

Examples:
  sluice gateway --upstream http://127.0.0.1:3000 --policy policy.yaml
  curl -i http://127.0.0.1:8080/
`

func runGateway(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var (
		where    places
		how      listening
		upstream string
		maxBody  int64
		timeout  time.Duration
	)
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	where.define(flags)
	how.define(flags)
	flags.StringVar(&upstream, "upstream", "", "")
	flags.Int64Var(&maxBody, "max-body", 0, "")
	flags.DurationVar(&timeout, "response-timeout", 0, "")
	if helped, err := configure(flags, args, gatewayHelp, stdout, os.LookupEnv); helped || err != nil {
		return err
	}
	if err := how.check("gateway"); err != nil {
		return err
	}
	if upstream == "" {
		return &usageError{"gateway: --upstream must say where the API is; see sluice help gateway"}
	}
	log := how.log(stderr)
	tlsConfig, err := serverTLS(how.certFile, how.keyFile, how.clientCA, log)
	if err != nil {
		return err
	}
	run := newGroup(tlsConfig, log)
	defer run.abandon()
	if err := run.listen("listen", how.listen); err != nil {
		return err
	}
	s, err := open(ctx, where, log)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, s.close()) }()
	gate, err := s.watchfulGate(log)
	if err != nil {
		return err
	}
	defer gate.Close() //nolint:errcheck // nothing is written
	keeper, err := s.keeper(log)
	if err != nil {
		return err
	}
	g, err := gateway.New(gateway.Config{
		Upstream: upstream, Gate: gate, Inner: gateway.Idempotent(keeper),
		MaxBody: maxBody, ResponseTimeout: timeout, Log: log,
	})
	if err != nil {
		return err
	}
	if how.admin != "" {
		if err := run.listen("admin-listen", how.admin); err != nil {
			return err
		}
		run.oversee("admin-listen", s.admin(&run.draining, loopback(how.admin) || how.clientCA != ""))
	}
	g.Server().Handler = s.follow(g, how.accessLog, log)
	run.serveWith("listen", g.Server(), g.Shutdown)
	policy := cmp.Or(where.policy, "a sample: 100/minute burst 20 for every caller; --policy is for yours")
	scheme, metrics := "http", ""
	if tlsConfig != nil {
		scheme = "https"
	}
	if how.admin != "" {
		metrics = fmt.Sprintf("  metrics   %s://%s/metrics\n", scheme, reachable(run.address("admin-listen")))
	}
	at := scheme + "://" + reachable(run.address("listen"))
	if _, err := fmt.Fprintf(stdout, "sluice passes requests on from %s to %s\n  policy    %s\n%s\nTry it:\n  curl -i %[1]s/\n\nStop it with Ctrl-C.\n",
		at, redacted(upstream), policy, metrics); err != nil {
		return err
	}
	if err := run.until(ctx, s.reload); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "stopped; every request that had begun was answered")
	return err
}

// watchfulGate decides requests by the policy, writes down refusals as it
// says, and watches for callers who go on and on.
func (s *stack) watchfulGate(log *slog.Logger) (*httplimit.Gate, error) {
	refusals, err := httplimit.NewAudit(func(r httplimit.Refusal) {
		log.Info("refused", "entity", r.Entity, "address", r.Address, "tier", r.Tier, "method", r.Method,
			"endpoint", r.Endpoint, "limit", r.Limit, "rule", r.Rule.String(), "cost", r.Cost.String(), "retry_after", r.RetryAfter)
	}, 0)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, refusals.Close)
	sanctions := metrics.NewSanctions()
	guard, err := abuse.New(abuse.Config{Audit: sanctions.Told, Log: log})
	if err != nil {
		return nil, err
	}
	sanctions.Watch(guard)
	s.registry.MustRegister(metrics.Refusals(refusals), sanctions)
	config := httplimit.Config{Limiter: s.limiter, Policy: s.policy.Policy, Audit: refusals, Abuse: guard, Log: log}
	config.UseCatalog(s.catalog)
	if s.decides, err = httplimit.NewGate(config); err != nil {
		return nil, err
	}
	return s.decides, nil
}
