package envoy_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-go/sluice/server/envoy"
)

// dial serves s on gRPC and connects to it.
func dial(t *testing.T, s *envoy.Service) *grpc.ClientConn {
	t.Helper()
	server := grpc.NewServer(envoy.ServerOptions(0, 0)...)
	s.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return conn
}

func TestGRPC(t *testing.T) {
	s := open(t, manyRules, envoy.Settings{})
	conn := dial(t, s)
	client := pb.NewRateLimitServiceClient(conn)
	for _, want := range []string{"OK, OK 1/2", "OK, OK 0/2", "OVER, OVER 0/2"} {
		a, err := client.ShouldRateLimit(t.Context(), request("shop", d("user", "a")))
		if err != nil {
			t.Fatal(err)
		}
		if got := outline(a); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}

	_, err := client.ShouldRateLimit(t.Context(), request("shop"))
	if err == nil || err.Error() != "rpc error: code = Unknown desc = rate limit descriptor list must not be empty" {
		t.Errorf("got %v", err)
	}
	if _, err := client.ShouldRateLimit(t.Context(), request("shop", d("user", strings.Repeat("x", 2<<20)))); err == nil {
		t.Error("a request of two megabytes was accepted")
	}

	health := healthpb.NewHealthClient(conn)
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{
		healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING,
	} {
		h, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
		if err != nil || h.GetStatus() != want {
			t.Errorf("health %v, %v, want %v", h, err, want)
		}
		s.Drain()
	}

	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	list, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(list.String(), "envoy.service.ratelimit.v3.RateLimitService") {
		t.Errorf("reflection knows %v", list)
	}
}

func TestJSON(t *testing.T) {
	s := open(t, manyRules, envoy.Settings{})
	server := httptest.NewServer(s.Handler())
	defer server.Close()
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"nobody"}]}]}`, 429, "OVER, OVER 0/0"},
		{`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"a"}]}],"hitsAddend":2}`, 200, "OK, OK 0/2"},
		{`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"vip"}],"hitsAddend":"0"}]}`, 200, "OK, OK 5/5"},
		{`{"domain":"shop"}`, 400, ""},
		{`{"domain":"shop","nonsense":1}`, 400, ""},
		{`[`, 400, ""},
		{`"` + strings.Repeat("x", 2<<20) + `"`, 413, ""},
	} {
		response, err := http.Post(server.URL+"/json", "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.status {
			t.Errorf("%.60s: %s, want %d", c.body, response.Status, c.status)
		}
		if c.want == "" {
			continue
		}
		var a pb.RateLimitResponse
		if err := protojson.Unmarshal(body, &a); err != nil {
			t.Fatal(err)
		}
		if got := outline(&a); got != c.want {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
}

func TestHealthCheck(t *testing.T) {
	empty := openOn(t, memoryStore(t), write(t, map[string]string{"..x": ""}), envoy.Settings{NeedDomain: true})
	full := open(t, manyRules, envoy.Settings{NeedDomain: true})
	for _, c := range []struct {
		service *envoy.Service
		status  int
	}{{empty, 500}, {full, 200}} {
		w := httptest.NewRecorder()
		c.service.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/healthcheck", nil))
		if w.Code != c.status {
			t.Errorf("health %d, want %d", w.Code, c.status)
		}
	}
}
