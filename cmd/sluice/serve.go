package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/schedule/target"
	"github.com/sluice-go/sluice/server"
	"github.com/sluice-go/sluice/server/envoy"
	"github.com/sluice-go/sluice/server/forwardauth"
	"github.com/sluice-go/sluice/tracing"
)

// serveFlags are what serve can be told.
type serveFlags struct {
	places
	listening
	grpc, envoy              string
	localQuotas              bool
	adminToken, serviceToken string
	auditFolder              string
	auditKeep                period
	reclaim                  bool
	sealKey                  string
	targetAllow              names
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "answer takes over HTTP and gRPC",
		Long: `Without flags it keeps buckets in memory, with a snapshot in
./sluice.db.buckets every 10 s, and everything else in ./sluice.db, uses a
sample policy, and is reachable from this machine only. With --store memory
there is no snapshot.

Endpoints:
  GET  /healthz          200 while it runs; /readyz: 200 if it can decide
  POST /v1/take          200 if allowed, 429 if refused
  GET  /v1/openapi.yaml  describes the others
  GET  /auth             for nginx, Caddy and Traefik
  POST /json             Envoy's service over HTTP, with --envoy-config

Signals:
  TERM and INT finish the requests in flight, return held tokens and stop;
  HUP reloads the policy, Envoy's files and the file of --tokens.`,
		Example: `sluice serve
curl -d '{"entity":"alice","resource":"api"}' http://127.0.0.1:8080/v1/take
sluice serve --store redis://127.0.0.1:6379 --catalog postgres://localhost/sluice --policy policy.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.serve(cmd.Context(), cmd.Flags().Changed, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().SortFlags = false
	settings(cmd.Flags(), f.listening.define, f.places.define, f.define)
	return cmd
}

func (f *serveFlags) define(to *pflag.FlagSet) {
	to.Var(address{&f.grpc, true}, "grpc-listen", "`address` for Envoy's rate limit service (default 127.0.0.1:8081 with --envoy-config)")
	to.StringVar(&f.envoy, "envoy-config", "", "`folder` with files of envoyproxy/ratelimit")
	to.BoolVar(&f.localQuotas, "envoy-local-quotas", false, "let local quotas answer Envoy while the store is away; otherwise that is an error, and Envoy's failure_mode_deny decides")
	to.StringVar(&f.auditFolder, "audit-archive", "", "`folder` that old changes of the audit log are moved to, every midnight in UTC; for one node of an installation")
	f.auditKeep = period(defaultAuditKeep)
	to.Var(&f.auditKeep, "audit-keep", "`duration` for which changes stay in the log with --audit-archive (default 90d)")
	to.BoolVar(&f.reclaim, "reclaim-leaked", false, "reclaim slots that were assigned, are overdue and were never started; otherwise they are logged")
	to.StringVar(&f.sealKey, "seal-key", "", "`secret` of at least 32 bytes that seals the secrets of targets, the same on all servers; @file reads it from a file, "+
		"whose first line seals and whose others still open")
	to.Var(&f.targetAllow, "target-allow", "`host` or host:port that targets may have though its address is not public; may be repeated")
	to.StringVar(&f.adminToken, "admin-token", "", "`secret` that allows everything; @file reads it from a file")
	to.StringVar(&f.serviceToken, "service-token", "", "`secret` of trusted back-ends, which take for any entity; @file reads it from a file")
}

func (p *places) define(f *pflag.FlagSet) {
	f.StringVar(&p.policy, "policy", "", "policy `file`; changes to it take effect as they are made")
	p.store.define(f, "store", "memory", "`place` of the buckets: memory, memory:FILE with a snapshot (serve without this: beside the catalog), redis://…, rediss://…, "+
		"redis+sentinel://…, redis+cluster://…, postgres://… or dynamodb://…")
	p.catalog.define(f, "catalog", "sluice.db", "`place` of everything else: a file, or postgres://…")
	p.replays.define(f, "replays", "", "`place` of the responses of idempotent writes, which all gateways have to share: a file, postgres://… or redis://… (default the catalog's)")
	p.store.connecting(f)
	f.StringVar(&p.store.replica, "store-replica", "", "`address` of a replica of Redis or a standby of PostgreSQL, from which lists are read while it is at most 500 ms behind; takes never are")
	f.IntVar(&p.store.replicas, "store-replicas", 0, "`number` of Redis replicas that must acknowledge a take of a critical limit; with fewer its outcome is unknown")
	p.catalog.connecting(f)
	p.replays.connecting(f)
	choose(f, &p.migrate, "migrate", "on", "create and migrate schemas at the start; off leaves that to sluice migrate", "on", "off")
	f.IntVar(&p.memoryBuckets, "memory-buckets", 0, "most buckets of a store in memory, as a `number` (default 5 million)")
	f.Int64Var(&p.memoryBytes, "memory-bytes", 0, "most memory of a store in memory, in `bytes` (default 512 MiB)")
	f.Int64Var(&p.processMemory, "process-memory", 0, "memory that the process may use, in `bytes` (default GOMEMLIMIT, or what the container allows); "+
		"from 80 % on, full buckets and cached answers are evicted and new keys share a bucket")
	f.IntVar(&p.usageSeries, "usage-series", 0, "most combinations of entity, resource and limit in a namespace whose usage is kept apart, as a `number` (default 200000); "+
		"further ones count together, as $OTHER")
	f.Var(&p.cacheTTL, "cache-ttl", "`duration` for which what the catalog says is remembered if no change is heard of (default 1m)")
	f.BoolVar(&p.hold, "hold", true, "hold tokens of a shared store ahead of need; false asks it for every take")
	f.Float64Var(&p.alerts.Warning, "warn-at", 70, "utilization of a limit, in `percent`, that raises a warning in the log and metrics")
	f.Float64Var(&p.alerts.Critical, "critical-at", 90, "utilization of a limit, in `percent`, that raises a critical alarm")
}

// loopback reports whether only this machine can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// serve serves until ctx is done. said reports which flags were given.
func (f *serveFlags) serve(ctx context.Context, said func(flag string) bool, stdout, stderr io.Writer) (err error) {
	swapped, err := f.swapEnvoy(said)
	if err != nil {
		return err
	}
	access, err := f.access(swapped.Dir != "")
	if err != nil {
		return err
	}
	if err := cmp.Or(f.places.check(said), f.checkArchive(said)); err != nil {
		return err
	}
	if !said("store") && f.store.address == "memory" && f.catalog.isFile() {
		f.store.address += ":" + f.catalog.address + ".buckets" // day and month quotas survive a restart
	}
	log, alarms, err := f.openLog(stderr)
	if err != nil {
		return err
	}
	defer alarms.Close() //nolint:errcheck // it has logged what went wrong
	for _, name := range swapped.Unused {
		log.Warn("environment variable has no effect", "variable", name)
	}
	tlsConfig, err := serverTLS(f.certFile, f.keyFile, f.clientCA, log)
	if err != nil {
		return err
	}
	run := newGroup(tlsConfig, log)
	if err := run.listen("listen", f.listen); err != nil {
		return err
	}
	defer run.abandon()
	s, err := open(ctx, f.places, log)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, s.close()) }()
	s.registry.MustRegister(metrics.Alarms(alarms))

	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { s.ready(w, r, &run.draining) })
	if err := s.openGate(ctx, f.policy, log); err != nil {
		return err
	}
	auth, err := forwardauth.Handler(forwardauth.Config{Gate: s.gate, Log: log})
	if err != nil {
		return err
	}
	mux.Handle("/auth", auth)
	behind := map[string]http.Handler{}
	if f.envoy != "" {
		swapped.Settings.LocalQuotas = f.localQuotas
		service, err := envoy.Open(envoy.Config{Limiter: s.limiter, Exact: s.exact, Dir: f.envoy, Settings: swapped.Settings, Ready: s.storeReady, Log: log})
		if err != nil {
			return err
		}
		defer service.Close() //nolint:errcheck // nothing is written
		s.registry.MustRegister(metrics.Counters(service.Counters))
		if swapped.Dir != "" { // open to all who reach it, as it was
			mux.Handle("/json", service.Handler())
		} else {
			behind["/json"] = service.Handler()
		}
		mux.Handle("/healthcheck", service.Handler())
		options := append(envoy.ServerOptions(swapped.ConnectionAge, swapped.ConnectionGrace), s.tracing.ServerOptions()...)
		options = append(options, grpc.ChainStreamInterceptor(run.endStream))
		if tlsConfig != nil {
			options = append(options, grpc.Creds(credentials.NewTLS(tlsConfig)))
		}
		g := grpc.NewServer(options...)
		service.Register(g)
		if err := run.serveGRPC(f.grpc, g, service.Drain); err != nil {
			return err
		}
		s.reloads = append(s.reloads, service.Reload)
	}
	if f.admin != "" {
		if err := run.listen("admin-listen", f.admin); err != nil {
			return err
		}
		guard := func(next http.Handler) (http.Handler, error) {
			return server.Guard(f.onAdmin(access), s.logins, log, next)
		}
		if swapped.Dir != "" { // open to all who reach it, as it was
			guard = func(next http.Handler) (http.Handler, error) { return next, nil }
		}
		admin, err := s.admin(&run.draining, loopback(f.admin) || f.clientCA != "", guard)
		if err != nil {
			return err
		}
		run.oversee("admin-listen", admin)
	}
	targets, err := s.api(mux, behind, access, f, log)
	if err != nil {
		return err
	}
	run.serve("listen", s.follow(mux, f.accessLog, log))
	if err := greet(stdout, f, run, access); err != nil {
		return err
	}
	s.reloads = append(s.reloads, func() error { return f.readTokens(&access) })
	s.archiveAudit(f.auditFolder, time.Duration(f.auditKeep), log)
	s.logHealth(time.Duration(f.healthLog), log)
	run.work(targets.Run)
	if err := run.until(ctx, s.reload); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "stopped; every request that had begun was answered")
	return err
}

// swapEnvoy lets Sluice start with the settings of envoyproxy/ratelimit in the
// environment. Flags and Sluice's own variables stand.
func (f *serveFlags) swapEnvoy(said func(flag string) bool) (envoy.Environment, error) {
	_, there := os.LookupEnv("RUNTIME_ROOT")
	if !there && f.envoy == "" {
		return envoy.Environment{}, nil
	}
	e, err := envoy.ReadEnvironment(os.LookupEnv)
	if err != nil {
		return e, err
	}
	for _, s := range []struct {
		name, value string
		to          *string
	}{
		{"envoy-config", e.Dir, &f.envoy},
		{"store", e.Store, &f.store.address},
		{"listen", e.Listen, &f.listen},
		{"grpc-listen", e.GRPCListen, &f.grpc},
		{"admin-listen", e.DebugListen, &f.admin},
		{"tls-cert", e.Cert, &f.certFile},
		{"tls-key", e.Key, &f.keyFile},
		{"tls-client-ca", e.ClientCA, &f.clientCA},
	} {
		if there && !said(s.name) && s.value != "" {
			*s.to = s.value
		}
	}
	if f.grpc == "" {
		f.grpc = "127.0.0.1:8081"
	}
	return e, nil
}

// api adds the HTTP API. The targets of plans are still to be run.
func (s *stack) api(mux *http.ServeMux, behind map[string]http.Handler, access server.Access, f *serveFlags, log *slog.Logger) (*target.Runner, error) {
	scheduler, err := schedule.New(schedule.Config{Store: s.slots, Log: log, Sweep: true, Reclaim: f.reclaim})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, scheduler.Close)
	keys, err := f.keys()
	if err != nil {
		return nil, err
	}
	targets, err := target.New(target.Config{Slots: scheduler, Limiter: s.paced, Keys: keys, Allow: f.targetAllow, Log: log})
	if err != nil {
		return nil, err
	}
	s.registry.MustRegister(metrics.Slots(scheduler), metrics.Targets(targets))
	keeper, err := s.keeper(log)
	if err != nil {
		return nil, err
	}
	handler, err := server.Handler(server.Config{
		Limiter: s.limiter, Catalog: s.catalog, Gate: s.gate, Activity: s.activity, Slots: scheduler, Targets: targets, Replays: keeper,
		StoreState: s.storeState(), Nodes: s.nodes, Sanctions: s.guard, Thresholds: f.alerts, Behind: behind, Access: access, Logins: s.logins, Log: log,
	})
	if err != nil {
		return nil, err
	}
	mux.Handle("/", handler)
	return targets, nil
}

// keys seal the secrets of targets. Nil if there are none.
func (f *serveFlags) keys() (*target.Keys, error) {
	if f.sealKey == "" {
		return nil, nil
	}
	text, err := secret(f.sealKey)
	if err != nil {
		return nil, err
	}
	keys, err := target.NewKeys(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })...)
	if err != nil {
		return nil, fmt.Errorf("serve: --seal-key: %w", err)
	}
	return keys, nil
}

// keeper remembers the responses of idempotent writes.
func (s *stack) keeper(log *slog.Logger) (*idempotency.Keeper, error) {
	if s.keeps != nil {
		return s.keeps, nil
	}
	k, err := idempotency.New(idempotency.Config{Store: s.replays, Log: log})
	if err != nil {
		return nil, err
	}
	s.keeps = k
	s.registry.MustRegister(metrics.Replays(k))
	s.closers = append(s.closers, k.Close)
	return k, nil
}

// follow gives requests an id, spans and, if wanted, a line in the log.
func (s *stack) follow(next http.Handler, accessLog bool, log *slog.Logger) http.Handler {
	if accessLog {
		next = tracing.AccessLog(log, next)
	}
	return tracing.RequestIDs(s.tracing.Handler(next))
}

// reload reads everything again that is read from files.
func (s *stack) reload() error {
	errs := []error{s.policy.Reload()}
	for _, f := range s.reloads {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}

// greet says what is served, where, and how to try it.
func greet(w io.Writer, f *serveFlags, run *group, access server.Access) error {
	var b strings.Builder
	scheme, token := "http", ""
	if f.certFile != "" {
		scheme = "https"
	}
	if !access.Open {
		token = ` -H "Authorization: Bearer $TOKEN"`
	}
	at := scheme + "://" + reachable(run.address("listen"))
	fmt.Fprintf(&b, "sluice answers takes on %s\n", at)
	buckets := redacted(f.store.address)
	if file, ok := strings.CutPrefix(f.store.address, "memory:"); ok {
		buckets = "memory, saved to " + file + " every 10 s and at the end; a crash forgets at most 10 s"
	} else if f.store.address == "memory" {
		buckets += ", forgotten at the end"
	}
	fmt.Fprintf(&b, "  buckets   %s\n  the rest  %s\n", buckets, redacted(f.catalog.address))
	if f.policy != "" {
		fmt.Fprintf(&b, "  policy    %s\n", f.policy)
	} else {
		fmt.Fprintf(&b, "  policy    a sample: 100/minute burst 20 for every entity; --policy is for yours\n")
	}
	if f.envoy != "" {
		fmt.Fprintf(&b, "  Envoy     gRPC on %s, from %s\n", run.address("grpc-listen"), f.envoy)
	}
	if f.admin != "" {
		fmt.Fprintf(&b, "  metrics   %s://%s/metrics\n", scheme, reachable(run.address("admin-listen")))
	}
	switch {
	case access.Open:
		fmt.Fprintf(&b, "  access    open; reachable from this machine only\n")
	case len(access.Tokens) == 0 && access.Named == nil && access.Certificates == server.RoleNone:
		fmt.Fprintf(&b, "  access    Envoy only; the API under /v1 takes API keys, and --admin-token opens it\n")
	default:
		fmt.Fprintf(&b, "  access    by token, API key or certificate; the admin API too\n")
	}
	give := `  curl%[2]s -X PUT -d '{"limits":{"rpm":{"rule":"1000/minute"}}}' %[1]s/v1/limits/entities/alice
`
	try := `
Try it (more than 20 times in a row, and it says when to come back):
  curl%[2]s -d '{"entity":"alice","resource":"api"}' %[1]s/v1/take

Give alice more, and ask again:
` + give
	if f.policy != "" { // it may have no limit for alice
		try = "\nTry it:\n" + give + `  curl%[2]s -d '{"entity":"alice","resource":"api"}' %[1]s/v1/take
`
	}
	fmt.Fprintf(&b, try+`  curl%[2]s %[1]s/v1/status/alice/api

Stop it with Ctrl-C.
`, at, token)
	_, err := io.WriteString(w, b.String())
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
