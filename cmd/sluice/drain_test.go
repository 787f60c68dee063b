package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	rlv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/redis/redistest"
)

// capacity is what the buckets of these tests have, and next to nothing comes
// back to them: what is left tells how much was taken.
const capacity = 1_000_000

const drainPolicy = `
version: 1
identity: {address: {trusted_proxies: [127.0.0.0/8]}}
limits: {everything: {per: ip, limit: 10/day burst 1000000}}
headers: {send: [ietf]}
system: {limit: {all: 10/day burst 1000000}}
degraded: {timeout: 10s} # a slow machine is no outage
`

const drainEnvoy = `
domain: shop
descriptors:
  - {key: user, rate_limit: {unit: year, requests_per_unit: 1000000}}
  - {key: held, rate_limit: {unit: day, requests_per_unit: 10, algorithm: token_bucket, burst: 1000000, hold: true}}
`

// A server that is told to stop answers every request that it has accepted,
// whatever the protocol. Accepted means:
//
//   - HTTP/1.1: a byte of it has reached the server when the server closes the
//     connection. The server closes one between two requests only, and only if
//     it has said so in its last answer ("Connection: close"), or if nothing has
//     come for half a second since it stopped taking up connections. So a
//     client that goes on at once gets its answer, and one that was idle sees
//     a connection end that it was not using. What no server can prevent is that
//     an idle client begins in the instant in which it is given up.
//   - gRPC and HTTP/2: its stream is one of those that the server's GOAWAY
//     covers. The others were not begun, and clients know it.
//   - A connection counts from when the server has taken it up. New ones are
//     refused.
//
// In the end the books must balance: what clients were allowed is what is
// missing from the buckets, not more (a decision that nobody heard of) and not
// less, also where tokens were held ahead of need and have to be given back.
func TestTermUnderLoad(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		testTermUnderLoad(t, "memory:"+filepath.Join(t.TempDir(), "buckets"))
	})
	t.Run("redis", func(t *testing.T) {
		testTermUnderLoad(t, redistest.Start(t).URL())
	})
}

func testTermUnderLoad(t *testing.T, store string) {
	dir := t.TempDir()
	args := []string{
		"serve", "--store", store, "--catalog", filepath.Join(dir, "sluice.db"),
		"--policy", writeFile(t, dir, "policy.yaml", drainPolicy),
		"--envoy-config", filepath.Dir(writeFile(t, dir, "envoy/shop.yaml", drainEnvoy)),
		"--grpc-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
	}
	p := begin(t, args...)
	if _, err := p.ask(t).SetSlotPlan(t.Context(), slotPlan); err != nil {
		t.Fatal(err)
	}
	f := newFleet(t)
	f.employTakes(p)
	f.employProtocols(p)
	f.employRecords(p)
	f.under(20)

	watching := watchHealth(t, p)
	waiting := waitLong(f, p)
	kept := openRaw(t, p.address)
	kept.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	kept.answered(200, "ok\n")
	idle := openRaw(t, p.address)
	idle.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	idle.answered(200, "ok\n")
	const body = `{"events":[{"event":"late","plan":"jobs"}]}`
	slow := openRaw(t, p.address)
	slow.send(fmt.Sprintf("POST /v1/slots/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:10]))
	fresh := openRaw(t, p.address)
	fresh.send("GET /healthz HT")
	kept.send("GET /healthz HT")

	f.stopped.Store(true)
	p.signal(t, syscall.SIGTERM)
	eventually(t, "/readyz of the admin port says 503", func() bool {
		status, text := p.get(t, "/readyz")
		return status == 503 && strings.Contains(text, "shutdown")
	})
	idle.over() // so the server's port drains, too, which it does a moment after /readyz says so
	for _, half := range []*rawConn{kept, fresh} {
		half.send("TP/1.1\r\nHost: localhost\r\n\r\n")
		if h := half.answered(200, "ok\n"); h.Get("Connection") != "close" {
			t.Errorf("the last answer does not say that it is: %v", h)
		}
		half.over()
	}
	f.working.Wait()
	if err := <-waiting; err != nil {
		t.Error(err)
	}
	if err := <-watching; err != nil {
		t.Error(err)
	}
	// All are gone but one, who still sends.
	if status, _ := p.get(t, "/healthz"); status != 200 {
		t.Errorf("the process is not alive: %d", status)
	}
	checkMetrics(t, p)
	slow.send(body[10:])
	slow.answered(200, `"late"`)
	p.wait(t)
	f.acknowledged("slot", "late")

	again := begin(t, append(args, "--hold=false")...)
	f.audit(again)
	again.signal(t, syscall.SIGTERM)
	again.wait(t)
}

// audit compares what is in the store with what clients were told.
func (f *fleet) audit(p *process) {
	t, ctx := f.t, f.t.Context()
	t.Helper()
	left := map[string]int{}
	c := p.ask(t)
	for _, entity := range []string{"take", "anew", "batch", "lease"} {
		d, err := c.Peek(ctx, client.Take{Entity: entity})
		if err != nil {
			t.Fatal(err)
		}
		left[entity] = int(d.Results[0].Remaining.Thousandths() / sluice.Token)
	}
	remaining, err := auth(ctx, &http.Client{Transport: &p.transport}, p)
	if err != nil {
		t.Fatal(err)
	}
	left["auth"] = remaining + 1
	envoys := pb.NewRateLimitServiceClient(dialGRPC(t, p))
	for _, bucket := range []string{"user json", "user grpc", "held grpc"} {
		key, value, _ := strings.Cut(bucket, " ")
		response, err := envoys.ShouldRateLimit(ctx, envoyRequest(key, value, 0))
		if err != nil {
			t.Fatal(err)
		}
		left[bucket] = int(response.GetStatuses()[0].GetLimitRemaining())
	}
	for bucket, n := range left {
		if missing := capacity - n; missing != f.spent[bucket] {
			t.Errorf("%s: %d were allowed, %d are missing from the store", bucket, f.spent[bucket], missing)
		}
	}
	f.remembered(p, 0)
}

var remainingField = regexp.MustCompile(`r=(\d+)`)

// auth asks as a proxy does, and answers what is left.
func auth(ctx context.Context, c *http.Client, p *process) (remaining int, err error) {
	r, err := http.NewRequestWithContext(ctx, "GET", p.url()+"/auth", nil)
	if err != nil {
		return 0, err
	}
	for name, value := range map[string]string{"For": "203.0.113.9", "Method": "GET", "Uri": "/", "Host": "api.example.com"} {
		r.Header.Set("X-Forwarded-"+name, value)
	}
	response, text, err := fetch(c, r)
	if err != nil {
		return 0, err
	}
	m := remainingField.FindStringSubmatch(response.Header.Get("RateLimit"))
	if response.StatusCode != 200 || m == nil {
		return 0, fmt.Errorf("%d %v %s", response.StatusCode, response.Header, text)
	}
	return strconv.Atoi(m[1])
}

func dialGRPC(t *testing.T, p *process) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+p.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func envoyRequest(key, value string, hits uint64) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: "shop", Descriptors: []*rlv3.RateLimitDescriptor{{
		Entries:    []*rlv3.RateLimitDescriptor_Entry{{Key: key, Value: value}},
		HitsAddend: wrapperspb.UInt64(hits),
	}}}
}

// watchHealth watches until the server says that it stops serving or ends the
// stream, which must not keep it from stopping.
func watchHealth(t *testing.T, p *process) <-chan error {
	t.Helper()
	stream, err := healthpb.NewHealthClient(dialGRPC(t, p)).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil || first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("health %v, %v", first, err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			h, err := stream.Recv()
			if err != nil {
				ended <- nil
				return
			}
			if h.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
				ended <- fmt.Errorf("health %v while it stops", h)
				return
			}
		}
	}()
	return ended
}

// waitLong is a take that would wait for twenty seconds. It is told to come
// back when the server stops.
func waitLong(f *fleet, p *process) <-chan error {
	c := f.api(p)
	take := client.Take{Entity: "patient", Limits: map[string]sluice.Limit{"slow": sluice.MustParse("1/20s")}}
	if _, err := c.Take(f.t.Context(), take); err != nil {
		f.t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(f.t.Context(), 50*time.Second)
		defer cancel()
		_, err := c.Wait(ctx, take)
		var refused *sluice.RefusedError
		if !errors.As(err, &refused) {
			answered <- fmt.Errorf("who waited got %v", err)
			return
		}
		answered <- nil
	}()
	return answered
}

// get asks the admin port, over a new connection.
func (p *process) get(t *testing.T, path string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+p.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, text, err := fetch(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, r)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, text
}

// troubles are errors that must not be. Waiting takes that were cut short while
// they asked the store count as sluice_take_errors_total, and are answered with
// a refusal.
var troubles = regexp.MustCompile(`(?m)^(sluice_store_errors_total|sluice_unknown\w*|sluice_usage_failures_total|sluice_idempotent_lost_total|sluice_catalog_failures_total|ratelimit_service_call\w*error\w*)(\{.*\})? (.*)$`)

// checkMetrics looks for errors that were counted.
func checkMetrics(t *testing.T, p *process) {
	t.Helper()
	_, text := p.get(t, "/metrics")
	found := troubles.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		t.Errorf("no errors are counted:\n%s", text)
	}
	for _, m := range found {
		if m[3] != "0" {
			t.Errorf("errors were counted: %s", m[0])
		}
	}
}

// rawConn is a connection on which a test sends what it likes.
type rawConn struct {
	t *testing.T
	net.Conn
	reader *bufio.Reader
}

func openRaw(t *testing.T, address string) *rawConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(ample)); err != nil {
		t.Fatal(err)
	}
	return &rawConn{t, c, bufio.NewReader(c)}
}

func (c *rawConn) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// answered reads a whole answer.
func (c *rawConn) answered(status int, part string) http.Header {
	c.t.Helper()
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status || !strings.Contains(string(text), part) {
		c.t.Fatalf("got %d %s, %v", response.StatusCode, text, err)
	}
	if response.Close {
		response.Header.Set("Connection", "close")
	}
	return response.Header
}

// over waits until the server has closed the connection, as it should: with
// its end, not with a reset.
func (c *rawConn) over() {
	c.t.Helper()
	if b, err := c.reader.ReadByte(); err != io.EOF {
		c.t.Errorf("after the last answer came %q, %v", b, err)
	}
}
