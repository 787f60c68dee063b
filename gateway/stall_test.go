package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/idempotency"
)

const keyed = `
version: 1
limits: {all: {per: ip, limit: 100000/minute}, few: {per: ip, limit: 1/week, match: /few}}
idempotency: {orders: {match: POST /orders}}
`

func keeper(t testing.TB) *idempotency.Keeper {
	t.Helper()
	store, err := idempotency.NewMemory(idempotency.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	k, err := idempotency.New(idempotency.Config{Store: store, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close(); store.Close() })
	return k
}

// TestABodyThatDoesNotCome is not waited for, whoever was to read it.
func TestABodyThatDoesNotCome(t *testing.T) {
	up := upstream(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	_, url := running(t, gateway.Config{Upstream: up, Gate: gate(t, keyed), Inner: httplimit.Idempotent(keeper(t)), StallTimeout: 200 * time.Millisecond})
	do(t, "POST", url+"/few", nil)
	for name, head := range map[string]string{
		"keyed": "POST /orders HTTP/1.1\r\nIdempotency-Key: k\r\n", "refused": "POST /few HTTP/1.1\r\n", "passed on": "POST /x HTTP/1.1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "%sHost: x\r\nContent-Length: 1000\r\n\r\nhalf", head)
			conn.SetReadDeadline(time.Now().Add(time.Minute))
			answer, err := io.ReadAll(conn) // until it is closed
			if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
				t.Errorf("%.60q, %v", answer, err)
			}
		})
	}
}

// TestAReplayThatIsNotFetched is not waited for either.
func TestAReplayThatIsNotFetched(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 32<<20)) })
	big := strings.Replace(keyed, "POST /orders}", "POST /orders, max_body: 64MiB}", 1)
	g, url := running(t, gateway.Config{Upstream: up, Gate: gate(t, big), Inner: httplimit.Idempotent(keeper(t)), StallTimeout: 3 * time.Second})
	if response, body := do(t, "POST", url+"/orders", nil, "Idempotency-Key", "k"); response.StatusCode != 200 || len(body) != 32<<20 {
		t.Fatal(response.StatusCode, len(body))
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n")
	line, err := bufio.NewReaderSize(conn, 64).ReadString('\n')
	if err != nil || !strings.Contains(line, "200") {
		t.Fatal(line, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := g.Shutdown(ctx); err != nil {
		t.Errorf("it is still being sent: %v", err)
	}
}

// TestShutdownBreaksOffRunsThatOutliveTheirClient: a request with a key goes
// on when its client has gone, but not when the time for shutting down is over.
func TestShutdownBreaksOffRunsThatOutliveTheirClient(t *testing.T) {
	arrived := make(chan struct{})
	up := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	g, url := running(t, gateway.Config{Upstream: up, Gate: gate(t, keyed), Inner: httplimit.Idempotent(keeper(t)), ResponseTimeout: time.Hour})
	go func() {
		r, _ := http.NewRequestWithContext(t.Context(), "POST", url+"/orders", nil)
		r.Header.Set("Idempotency-Key", "k")
		if response, err := http.DefaultTransport.RoundTrip(r); err == nil {
			response.Body.Close()
		}
	}()
	<-arrived
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- g.Shutdown(ctx) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it says that everything was answered")
		}
	case <-time.After(time.Minute):
		t.Fatal("it hangs")
	}
}
