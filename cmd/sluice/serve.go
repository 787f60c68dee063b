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
	"net/http"
	"os"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/schedule"
	schedulemetrics "github.com/sluice-go/sluice/schedule/metrics"
	"github.com/sluice-go/sluice/server"
	"github.com/sluice-go/sluice/server/envoy"
	"github.com/sluice-go/sluice/server/forwardauth"
	"github.com/sluice-go/sluice/tracing"
)

const serveHelp = `Usage: sluice serve [flags]

Answers takes over HTTP, until interrupted. Without flags it keeps buckets in
memory and everything else in ./sluice.db, goes by a sample policy, and can be
reached from this machine only.

Flags, each also as SLUICE_LISTEN and so on, and as "listen: …" in a file:
  --config file          a file of these settings, in YAML
  --listen address       where to listen (default 127.0.0.1:8080); port 0 picks one
  --admin-listen address metrics and health, and profiles on a loopback address (default off)
  --grpc-listen address  Envoy's rate limit service (default 127.0.0.1:8081 with --envoy-config)
  --policy file          the policy; it is followed when it changes
  --store where          memory (the default), memory:FILE with a snapshot, redis://…,
                         rediss://…, redis+sentinel://…, redis+cluster://…, postgres://…
  --catalog where        a file (default sluice.db), or postgres://…
  --hold=false           ask a shared store for every take; hold no tokens ahead of need
  --envoy-config folder  files of envoyproxy/ratelimit
  --admin-token secret   who brings it may do everything; @file reads it from a file
  --take-token secret    who brings it may take; @file too
  --tls-cert file, --tls-key file
                         listen with TLS; new files are used as they come
  --tls-client-ca file   let in only clients with a certificate of this authority, as admins
  --log format           text (the default) or json
  --access-log           log every request
  --warn-at percent      of a limit used, at which the log and the metrics say so (default 70)
  --critical-at percent  the same, louder (default 90)

Endpoints:
  GET  /healthz          200 while it runs; /readyz: 200 if it can decide
  POST /v1/take          200 if allowed, 429 if refused
  GET  /v1/openapi.yaml  all others
  GET  /auth             for nginx, Caddy and Traefik
  POST /json             Envoy's service over HTTP, with --envoy-config

Signals:
  TERM and INT finish the requests under way, give back held tokens and stop;
  HUP reads the policy and Envoy's files again.

Examples:
  sluice serve
  curl -d '{"entity":"alice","resource":"api"}' http://127.0.0.1:8080/v1/take
  sluice serve --store redis://127.0.0.1:6379 --catalog postgres://localhost/sluice --policy policy.yaml
`

// serveFlags are what serve can be told.
type serveFlags struct {
	places
	listening
	grpc, envoy           string
	adminToken, takeToken string
}

// listening is where and how a command listens, and how it logs.
type listening struct {
	listen, admin               string
	certFile, keyFile, clientCA string
	logFormat                   string
	accessLog                   bool
	config                      string
}

func (p *places) define(f *flag.FlagSet) {
	f.StringVar(&p.store, "store", "memory", "")
	f.StringVar(&p.catalog, "catalog", "sluice.db", "")
	f.StringVar(&p.policy, "policy", "", "")
	f.BoolVar(&p.hold, "hold", true, "")
	f.Float64Var(&p.alerts.Warning, "warn-at", 70, "")
	f.Float64Var(&p.alerts.Critical, "critical-at", 90, "")
}

func (l *listening) define(f *flag.FlagSet) {
	f.StringVar(&l.listen, "listen", "127.0.0.1:8080", "")
	f.StringVar(&l.admin, "admin-listen", "", "")
	f.StringVar(&l.certFile, "tls-cert", "", "")
	f.StringVar(&l.keyFile, "tls-key", "", "")
	f.StringVar(&l.clientCA, "tls-client-ca", "", "")
	f.StringVar(&l.logFormat, "log", "text", "")
	f.BoolVar(&l.accessLog, "access-log", false, "")
	f.StringVar(&l.config, "config", "", "")
}

func (l *listening) check(command string) error {
	for name, address := range map[string]string{"listen": l.listen, "admin-listen": l.admin} {
		if _, _, err := net.SplitHostPort(address); err != nil && (address != "" || name == "listen") {
			return &usageError{fmt.Sprintf("%s: --%s %q: want an address such as 127.0.0.1:8080", command, name, address)}
		}
	}
	if l.logFormat != "text" && l.logFormat != "json" {
		return &usageError{fmt.Sprintf("%s: --log %q: want text or json", command, l.logFormat)}
	}
	return nil
}

func (l *listening) log(w io.Writer) *slog.Logger {
	var h slog.Handler = slog.NewTextHandler(w, nil)
	if l.logFormat == "json" {
		h = slog.NewJSONHandler(w, nil)
	}
	return slog.New(tracing.LogHandler(h))
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

// access is who may do what. A server that stands in for envoyproxy/ratelimit
// starts as that does, with the HTTP API closed until somebody is named.
func (f *serveFlags) access(standsIn bool) (server.Access, error) {
	var a server.Access
	for _, t := range []struct {
		value, name string
		role        server.Role
	}{{f.adminToken, "admin token", server.RoleAdmin}, {f.takeToken, "take token", server.RoleTake}} {
		if t.value == "" {
			continue
		}
		s, err := secret(t.value)
		if err != nil {
			return a, err
		}
		a.Tokens = append(a.Tokens, server.Token{Name: t.name, Secret: s, Role: t.role})
	}
	if f.clientCA != "" {
		a.Certificates = server.RoleAdmin
	}
	if len(a.Tokens) == 0 && f.clientCA == "" {
		switch {
		case loopback(f.listen):
			a.Open = true
		case !standsIn:
			return a, &usageError{fmt.Sprintf("serve: --listen %s can be reached from elsewhere: say who may use it, with --admin-token or --tls-client-ca", f.listen)}
		}
	}
	if f.envoy != "" && !standsIn && f.clientCA == "" && !loopback(f.grpc) {
		return a, &usageError{fmt.Sprintf("serve: --grpc-listen %s can be reached from elsewhere: say who may use it, with --tls-client-ca", f.grpc)}
	}
	return a, nil
}

func serve(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	var f serveFlags
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	f.places.define(flags)
	f.listening.define(flags)
	flags.StringVar(&f.grpc, "grpc-listen", "", "")
	flags.StringVar(&f.envoy, "envoy-config", "", "")
	flags.StringVar(&f.adminToken, "admin-token", "", "")
	flags.StringVar(&f.takeToken, "take-token", "", "")
	if helped, err := configure(flags, args, serveHelp, stdout, os.LookupEnv); helped || err != nil {
		return err
	}
	swapped, err := f.swapEnvoy(flags)
	if err != nil {
		return err
	}
	if err := f.check("serve"); err != nil {
		return err
	}
	access, err := f.access(swapped.Dir != "")
	if err != nil {
		return err
	}
	log := f.log(stderr)
	for _, name := range swapped.Unused {
		log.Warn("environment variable without effect", "variable", name)
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

	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { s.ready(w, r, &run.draining) })
	gate, err := s.watchfulGate(log)
	if err != nil {
		return err
	}
	defer gate.Close() //nolint:errcheck // nothing is written
	auth, err := forwardauth.Handler(forwardauth.Config{Gate: gate, Log: log})
	if err != nil {
		return err
	}
	mux.Handle("/auth", auth)
	behind := map[string]http.Handler{}
	if f.envoy != "" {
		service, err := envoy.New(envoy.Config{Limiter: s.limiter, Exact: s.exact, Dir: f.envoy, Settings: swapped.Settings, Log: log})
		if err != nil {
			return err
		}
		defer service.Close() //nolint:errcheck // nothing is written
		s.registry.MustRegister(service.Collector())
		if swapped.Dir != "" { // open to whoever can reach it, as it was
			mux.Handle("/json", service.Handler())
		} else {
			behind["/json"] = service.Handler()
		}
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
		run.oversee("admin-listen", s.admin(&run.draining, loopback(f.admin) || f.clientCA != ""))
	}
	if err := s.api(mux, behind, access, f.alerts, log); err != nil {
		return err
	}
	run.serve("listen", s.follow(mux, f.accessLog, log))
	if err := greet(stdout, &f, run, access); err != nil {
		return err
	}
	if err := run.until(ctx, s.reload); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "stopped; every request that had begun was answered")
	return err
}

// swapEnvoy lets Sluice start with the settings of envoyproxy/ratelimit in the
// environment. Flags and Sluice's own variables stand.
func (f *serveFlags) swapEnvoy(flags *flag.FlagSet) (envoy.Environment, error) {
	_, there := os.LookupEnv("RUNTIME_ROOT")
	if !there && f.envoy == "" {
		return envoy.Environment{}, nil
	}
	e, err := envoy.ReadEnvironment(os.LookupEnv)
	if err != nil {
		return e, err
	}
	said := map[string]bool{}
	flags.Visit(func(fl *flag.Flag) { said[fl.Name] = true })
	for _, s := range []struct {
		name, value string
		to          *string
	}{
		{"envoy-config", e.Dir, &f.envoy},
		{"store", e.Store, &f.store},
		{"listen", e.Listen, &f.listen},
		{"grpc-listen", e.GRPCListen, &f.grpc},
		{"admin-listen", e.DebugListen, &f.admin},
		{"tls-cert", e.Cert, &f.certFile},
		{"tls-key", e.Key, &f.keyFile},
		{"tls-client-ca", e.ClientCA, &f.clientCA},
	} {
		if there && !said[s.name] && s.value != "" {
			*s.to = s.value
		}
	}
	if f.grpc == "" {
		f.grpc = "127.0.0.1:8081"
	}
	return e, nil
}

// api adds the HTTP API.
func (s *stack) api(mux *http.ServeMux, behind map[string]http.Handler, access server.Access, alerts catalog.Thresholds, log *slog.Logger) error {
	scheduler, err := schedule.New(s.slots, schedule.Options{Log: log, Sweep: true})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, scheduler.Close)
	s.registry.MustRegister(schedulemetrics.New(scheduler))
	keeper, err := s.keeper(log)
	if err != nil {
		return err
	}
	handler, err := server.Handler(server.Config{
		Limiter: s.limiter, Catalog: s.catalog, Activity: s.activity, Slots: scheduler, Replays: keeper,
		Thresholds: alerts, Behind: behind, Access: access, Log: log,
	})
	if err != nil {
		return err
	}
	mux.Handle("/", handler)
	return nil
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
	fmt.Fprintf(&b, "  buckets   %s\n  the rest  %s\n", redacted(f.store), redacted(f.catalog))
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
		fmt.Fprintf(&b, "  access    whoever can reach it, which is this machine only\n")
	case len(access.Tokens) == 0 && access.Certificates == server.RoleNone:
		fmt.Fprintf(&b, "  access    Envoy only; the API under /v1 takes API keys, and --admin-token opens it\n")
	default:
		fmt.Fprintf(&b, "  access    by token, API key or certificate; the admin API too\n")
	}
	fmt.Fprintf(&b, `
Try it (more than 20 times in a row, and it says when to come back):
  curl%[2]s -d '{"entity":"alice","resource":"api"}' %[1]s/v1/take

Give alice more, and ask again:
  curl%[2]s -X PUT -d '{"limits":{"rpm":{"limit":"1000/minute"}}}' %[1]s/v1/limits/entities/alice
  curl%[2]s %[1]s/v1/status/alice/api

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
