package tracing_test

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// TestCallsOverGRPCAreFollowed with a real server.
func TestCallsOverGRPCAreFollowed(t *testing.T) {
	unset(t)
	r := receive(t)
	tr := setup(t, r.URL)
	server := grpc.NewServer(tr.ServerOptions()...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(l) //nolint:errcheck // it ends with Stop
	defer server.Stop()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", sampled)
	client := healthpb.NewHealthClient(conn)
	if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{Service: "unknown"}); err == nil {
		t.Fatal("an unknown service is healthy")
	}
	span := r.got(t, tr)["/grpc.health.v1.Health/Check"]
	if span == nil || r.count != 1 {
		t.Fatalf("%d spans: %v", r.count, r.spans)
	}
	if got := parent(t, span); got != "b7ad6b7169203331" {
		t.Errorf("the parent is %s, want the caller's", got)
	}
	if got := values(span.GetAttributes())["rpc.grpc.status_code"]; got != int64(5) {
		t.Errorf("status %v, want 5", got)
	}
}
