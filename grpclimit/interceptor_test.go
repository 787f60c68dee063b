package grpclimit_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
)

var sample = fmt.Sprintf(`
version: 1
tiers:
  free: {upgrade: https://example.com/upgrade, limits: {global: 3/hour}}
  pro: {limits: {global: 1000/hour}}
default_tier: free
limits:
  global: {per: caller}
  watching: {per: caller, match: /grpc.health.v1.Health/Watch, limit: 1 concurrent}
  tokens: {per: caller, match: /grpc.health.v1.Health/Check, limit: {tpm: 100/minute}}
endpoints:
  check: {match: POST /grpc.health.v1.Health/Check, cost: {tpm: 1}, settle: {tpm: X-Tokens}}
deny: ['key:evil']
identity:
  keys:
    - {name: f, sha256: %s}
    - {name: p, sha256: %s, tier: pro}
    - {name: evil, sha256: %s}
headers: {send: [ietf, x-ratelimit]}
refusal: {docs: 'https://example.com/docs'}
`, hash("free"), hash("pro"), hash("evil"))

func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// service is the health service with some mischief.
type service struct {
	grpc_health_v1.UnimplementedHealthServer
	boom    atomic.Bool
	opened  chan struct{}
	settled func(context.Context)
}

func (s *service) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if s.boom.Load() {
		panic("boom")
	}
	if s.settled != nil {
		s.settled(ctx)
	}
	return &grpc_health_v1.HealthCheckResponse{}, nil
}

func (s *service) Watch(_ *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	if err := stream.Send(&grpc_health_v1.HealthCheckResponse{}); err != nil {
		return err
	}
	s.opened <- struct{}{}
	<-stream.Context().Done()
	return nil
}

func start(t *testing.T, s *service) grpc_health_v1.HealthClient {
	t.Helper()
	p, err := policy.Parse("test.yaml", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g, err := httplimit.Open(t.Context(), httplimit.Config{
		Limiter: sluice.New(store), Policy: p, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	recovering := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if r := recover(); r != nil {
				err = status.Error(codes.Internal, fmt.Sprint(r))
			}
		}()
		return next(ctx, request)
	}
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(recovering, grpclimit.Unary(g)),
		grpc.ChainStreamInterceptor(grpclimit.Stream(g)),
	)
	grpc_health_v1.RegisterHealthServer(server, s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l)
	t.Cleanup(server.Stop)
	c, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return grpc_health_v1.NewHealthClient(c)
}

func as(t *testing.T, key string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), "x-api-key", key)
}

func check(t *testing.T, c grpc_health_v1.HealthClient, key string) (metadata.MD, *status.Status) {
	t.Helper()
	var header metadata.MD
	_, err := c.Check(as(t, key), &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&header))
	return header, status.Convert(err)
}

func TestUnaryCallsAreLimited(t *testing.T) {
	c := start(t, &service{})
	for i := range 3 {
		header, s := check(t, c, "free")
		if s.Code() != codes.OK || !strings.Contains(header.Get("ratelimit")[0], fmt.Sprintf(`"global";r=%d`, 2-i)) {
			t.Fatalf("%v %v", s, header)
		}
	}
	header, s := check(t, c, "free")
	if s.Code() != codes.ResourceExhausted || len(header.Get("retry-after")) != 1 || len(header.Get("x-ratelimit-remaining")) != 1 {
		t.Fatalf("%v %v", s, header)
	}
	found := map[string]bool{}
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			delay := d.RetryDelay.AsDuration()
			found["retry"] = delay > 19*time.Minute && delay <= 20*time.Minute
		case *errdetails.QuotaFailure:
			found["quota"] = len(d.Violations) == 1 && d.Violations[0].Subject == "global" && strings.HasPrefix(d.Violations[0].Description, "3/hour, level ")
		case *errdetails.ErrorInfo:
			found["info"] = d.Reason == "ERR_RATE_LIMIT" && d.Metadata["tier"] == "free" && d.Metadata["limit"] == "global" && d.Metadata["rule"] == "3/hour"
		case *errdetails.Help:
			found["help"] = len(d.Links) == 2
		}
	}
	if len(found) != 4 || !found["retry"] || !found["quota"] || !found["info"] || !found["help"] {
		t.Errorf("details %v: %v", found, s.Details())
	}
	if _, s := check(t, c, "pro"); s.Code() != codes.OK {
		t.Errorf("somebody else: %v", s)
	}
}

func TestWhoIsNotLetInAtAll(t *testing.T) {
	c := start(t, &service{})
	for key, want := range map[string]codes.Code{"guess": codes.Unauthenticated, "evil": codes.PermissionDenied} {
		if _, s := check(t, c, key); s.Code() != want || strings.Contains(s.Message(), key) {
			t.Errorf("%s: %v", key, s)
		}
	}
}

func TestAStreamHoldsItsPlace(t *testing.T) {
	s := &service{opened: make(chan struct{}, 1)}
	c := start(t, s)
	ctx, cancel := context.WithCancel(as(t, "pro"))
	first, err := c.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Recv(); err != nil {
		t.Fatal(err)
	}
	if h, err := first.Header(); err != nil || len(h.Get("ratelimit")) != 1 {
		t.Errorf("%v %v", h, err)
	}
	<-s.opened
	open := func() codes.Code {
		second, err := c.Watch(as(t, "pro"), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = second.Recv()
		return status.Code(err)
	}
	if code := open(); code != codes.ResourceExhausted {
		t.Errorf("a second stream: %v", code)
	}
	cancel()
	for open() == codes.ResourceExhausted { // until the server has noticed
		continue
	}
}

func TestAPanicGivesTheTokensBackAndACostIsSettled(t *testing.T) {
	s := &service{}
	c := start(t, s)
	s.boom.Store(true)
	for range 5 {
		if _, st := check(t, c, "free"); st.Code() != codes.Internal {
			t.Fatal(st)
		}
	}
	s.boom.Store(false)
	s.settled = func(ctx context.Context) {
		if !httplimit.SetCost(ctx, "tpm", sluice.Tokens(40)) {
			t.Error("the cost was not taken")
		}
	}
	check(t, c, "free")
	header, st := check(t, c, "free")
	if st.Code() != codes.OK || !strings.Contains(header.Get("ratelimit")[0], `"global";r=1`) || !strings.Contains(header.Get("ratelimit")[0], `"tokens-tpm";r=59`) {
		t.Errorf("%v %v", st, header)
	}
}
