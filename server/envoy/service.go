package envoy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/sluice-go/sluice"
)

// Config configures a [Service]. Limiter and Dir must be set.
type Config struct {
	// Limiter decides. Tokens of limits with "hold: true" are held ahead of
	// need if its store does that: see package advance.
	Limiter *sluice.Limiter

	// Exact decides limits that count as in envoyproxy/ratelimit. It may be
	// on the store behind the one that holds, which saves them the way
	// through it. Nil means Limiter.
	Exact *sluice.Limiter

	// Dir is the folder of the configuration files, which are loaded again
	// when they change.
	Dir string

	Settings Settings

	// Ready reports whether the store can be asked. While it cannot, the service is
	// unhealthy. Nil means always.
	Ready func() bool

	// Log receives errors, and a line when the files are loaded. Nil means
	// slog.Default.
	Log *slog.Logger
}

// Service answers Envoy. It is safe for concurrent use. Close stops watching
// the files.
type Service struct {
	pb.UnimplementedRateLimitServiceServer

	limiter  *sluice.Limiter
	exact    *sluice.Limiter
	dir      string
	settings Settings
	log      *slog.Logger

	namespace string
	tree      atomic.Pointer[tree]
	counts    registry
	health    *health.Server
	ready     func() bool
	stopped   atomic.Bool // healthy no more, because it is about to end

	loading sync.Mutex // one at a time
	loaded  [32]byte   // a digest of the files, if they are known
	known   bool
	mistake error // in them
	watch   *watch
	calls   sync.Pool
}

// Open loads the files and begins to watch them. Unlike
// envoyproxy/ratelimit, which starts without limits if they are wrong, it
// fails then. Later mistakes are logged, and the limits stay as they were.
func Open(config Config) (*Service, error) {
	if config.Limiter == nil {
		return nil, errors.New("envoy: Limiter: must be set")
	}
	if config.Dir == "" {
		return nil, errors.New("envoy: Dir: must be the folder of the configuration files")
	}
	s := &Service{
		limiter: config.Limiter, exact: cmp.Or(config.Exact, config.Limiter), dir: config.Dir, settings: config.Settings.withDefaults(), log: defaultLog(config.Log),
		health: health.NewServer(), ready: config.Ready,
	}
	s.namespace = keyPart([]byte(s.settings.KeyPrefix))
	s.calls.New = func() any { return &call{} }
	if err := s.Reload(); err != nil {
		return nil, fmt.Errorf("envoy: %w", err)
	}
	s.watch = startWatch(s)
	return s, nil
}

// Close stops watching the files. The service is unhealthy from then on.
func (s *Service) Close() error {
	s.Drain()
	return s.watch.close()
}

// Drain makes the service unhealthy, so that no new connections come. It still
// answers requests.
func (s *Service) Drain() {
	s.stopped.Store(true)
	s.checkHealth()
}

// healthName is what envoyproxy/ratelimit calls itself in health checks.
const healthName = "ratelimit"

func (s *Service) healthy() bool {
	return !s.stopped.Load() && (s.ready == nil || s.settings.LocalQuotas || s.ready()) && (!s.settings.NeedDomain || len(s.tree.Load().domains) > 0)
}

func (s *Service) checkHealth() {
	status := healthpb.HealthCheckResponse_SERVING
	if !s.healthy() {
		status = healthpb.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus(healthName, status)
}

// Register adds the service to a gRPC server, and health and reflection if
// the server does not have them yet. Servers made with [ServerOptions] are
// right for it.
func (s *Service) Register(server *grpc.Server) {
	pb.RegisterRateLimitServiceServer(server, s)
	there := server.GetServiceInfo()
	if _, ok := there[healthpb.Health_ServiceDesc.ServiceName]; !ok {
		healthpb.RegisterHealthServer(server, s.health)
	}
	if _, ok := there["grpc.reflection.v1.ServerReflection"]; !ok {
		reflection.Register(server)
	}
}

// Handler returns a handler for /json, where a request and its answer are as in gRPC but
// written in JSON, and /healthcheck.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/json", s.serveJSON)
	mux.HandleFunc("/healthcheck", s.serveHealth)
	return mux
}

// Dump writes the limits in force for people, as /rlconfig does in
// envoyproxy/ratelimit.
func (s *Service) Dump() string { return s.tree.Load().String() }

// serviceError is a request that makes no sense. As there, its gRPC code is
// Unknown.
type serviceError string

func (e serviceError) Error() string { return string(e) }

// ShouldRateLimit decides a request.
func (s *Service) ShouldRateLimit(ctx context.Context, request *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	c := s.calls.Get().(*call)
	c.service = s
	response, err := c.decide(ctx, request)
	if err == nil {
		c.forget()
		s.calls.Put(c)
		return response, nil
	}
	// Whoever gave no answer in time may still use the call's memory.
	var wrong serviceError
	if errors.As(err, &wrong) {
		s.counts.serviceErrors.Add(1)
		return nil, wrong
	}
	s.counts.storeErrors.Add(1)
	return nil, storeError(err)
}
