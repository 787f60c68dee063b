package grpclimit_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sluice-go/sluice/grpclimit"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/policy"
)

// serve starts a health service with these options.
func serve(t *testing.T, options []grpc.ServerOption) grpc_health_v1.HealthClient {
	t.Helper()
	server := grpc.NewServer(options...)
	grpc_health_v1.RegisterHealthServer(server, &service{opened: make(chan struct{}, 1)})
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

// answers asks as each of the keys and compares the codes.
func answers(t *testing.T, c grpc_health_v1.HealthClient, keys []string, want ...codes.Code) {
	t.Helper()
	for i, key := range keys {
		if _, s := check(t, c, key); s.Code() != want[i] {
			t.Errorf("call %d as %s: %v, want %v", i+1, key, s, want[i])
		}
	}
}

func TestOneLineForGRPC(t *testing.T) {
	answers(t, serve(t, grpclimit.PerIP("2/hour")), []string{"a", "b", "c"}, codes.OK, codes.OK, codes.ResourceExhausted)
	answers(t, serve(t, grpclimit.PerKey("1/hour")), []string{"a", "b", "a"}, codes.OK, codes.OK, codes.ResourceExhausted)
	name := func(ctx context.Context) string {
		md, _ := metadata.FromIncomingContext(ctx)
		return "user:" + md.Get("x-api-key")[0][:1]
	}
	answers(t, serve(t, grpclimit.Per("1/hour", name)), []string{"a1", "b1", "a2"}, codes.OK, codes.OK, codes.ResourceExhausted)
}

func TestOneLineLimitsStreamsTogetherWithCalls(t *testing.T) {
	c := serve(t, grpclimit.PerIP("1/hour"))
	answers(t, c, []string{"a"}, codes.OK)
	stream, err := c.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream after the only call: %v", err)
	}
}

func TestTheProgramsOwnIdentityAndRefusals(t *testing.T) {
	var method string
	c := serve(t, grpclimit.Limit(httplimit.MustOpen(policy.PerCaller, "1/hour"),
		grpclimit.Identify(func(_ context.Context, m string) (entity, tier string) {
			method = m
			return "user:ann", "pro"
		}),
		grpclimit.Refuse(func(_ context.Context, c *httplimit.Call, err error) error {
			if c.Tier != "pro" || c.Identity.Entity != "user:ann" || status.Code(err) != codes.ResourceExhausted {
				return errors.New("something else was refused")
			}
			return status.Error(codes.Aborted, "later")
		})))
	answers(t, c, []string{"a", "b"}, codes.OK, codes.Aborted)
	if method != "/grpc.health.v1.Health/Check" {
		t.Errorf("the method is %s", method)
	}
}

func TestPerNeedsAFunction(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("nobody names the callers, and it does not panic")
		}
	}()
	grpclimit.Per("1/hour", nil)
}
