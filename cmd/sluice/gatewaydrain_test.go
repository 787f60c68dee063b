package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/coder/websocket"
)

const gatewayPolicy = `
version: 1
limits: {everything: {per: ip, limit: 10/day burst 1000000}}
headers: {send: [ietf]}
idempotency: {orders: {match: POST /orders}}
`

// slowAPI is an API behind a gateway that takes its time.
type slowAPI struct {
	release chan struct{} // closed when what takes long may end
	begun   sync.WaitGroup
	orders  atomic.Int64
}

func (a *slowAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/slow":
		a.begun.Done()
		<-a.release
		io.WriteString(w, "at last") //nolint:errcheck // the client sees it
	case "/stream":
		io.WriteString(w, "first\n")          //nolint:errcheck // the client sees it
		http.NewResponseController(w).Flush() //nolint:errcheck // the client sees it
		a.begun.Done()
		<-a.release
		for i := range 1000 {
			fmt.Fprintf(w, "line %d\n", i)
			http.NewResponseController(w).Flush() //nolint:errcheck // the client sees it
		}
	case "/socket":
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer c.CloseNow() //nolint:errcheck // it is closed
		for {
			kind, text, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, text); err != nil {
				return
			}
		}
	case "/orders":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d", a.orders.Add(1))
	default:
		io.WriteString(w, "here you are") //nolint:errcheck // the client sees it
	}
}

// A gateway that is told to stop finishes what it has begun, and that may take
// a while: an answer for which the API needs long, a stream, a WebSocket that is
// in use. Requests on kept connections, over HTTP/2 and with idempotency keys
// go on meanwhile, as TestTermUnderLoad describes it.
func TestTermOfAGateway(t *testing.T) {
	dir := t.TempDir()
	api := &slowAPI{release: make(chan struct{})}
	api.begun.Add(2)
	upstream := httptest.NewServer(api)
	defer upstream.Close()
	args := []string{
		"gateway", "--upstream", upstream.URL, "--catalog", filepath.Join(dir, "sluice.db"),
		"--store", "memory:" + filepath.Join(dir, "buckets"),
		"--policy", writeFile(t, dir, "policy.yaml", gatewayPolicy), "--admin-listen", "127.0.0.1:0",
	}
	p := begin(t, args...)
	f := newFleet(t)
	request := func(c *http.Client, method, path, key string, status int, want string) error {
		r, err := http.NewRequestWithContext(t.Context(), method, p.url()+path, strings.NewReader("{}"))
		if err != nil {
			return err
		}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		response, text, err := fetch(c, r)
		if err == nil && (response.StatusCode != status || !strings.HasPrefix(text, want)) {
			err = fmt.Errorf("%d %s", response.StatusCode, text)
		}
		if err == nil && response.Header.Get("Idempotent-Replay") == "" {
			f.spend("address", 1)
		}
		return err
	}
	f.employ("request", 3, func(int) func(int) error {
		c := f.caller()
		return func(int) error { return request(c, "POST", "/", "", 200, "here you are") }
	})
	f.employ("request over HTTP/2", 3, func(int) func(int) error {
		c := f.caller()
		only := new(http.Protocols)
		only.SetUnencryptedHTTP2(true)
		c.Transport.(*caller).transport.Protocols = only
		return func(int) error { return request(c, "POST", "/", "", 200, "here you are") }
	})
	f.employ("order", 2, func(worker int) func(int) error {
		c := f.caller()
		return func(i int) error {
			key := fmt.Sprintf("%d-%d", worker, i)
			if err := request(c, "POST", "/orders", key, 201, "order"); err != nil {
				return err
			}
			f.acknowledged("order", key)
			return request(c, "POST", "/orders", key, 201, "order")
		}
	})

	slow := make(chan error, 1)
	go func() { slow <- request(f.caller(), "GET", "/slow", "", 200, "at last") }()
	stream, err := f.caller().Get(p.url() + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "first\n" {
		t.Fatalf("the stream began with %q, %v", line, err)
	}
	socket, _, err := websocket.Dial(t.Context(), p.url()+"/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow() //nolint:errcheck // it is closed
	f.spend("address", 2)
	echo := func(text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), ample)
		defer cancel()
		if err := socket.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := socket.Read(ctx); err != nil || string(got) != text {
			t.Fatalf("the socket says %q, %v", got, err)
		}
	}
	echo("before")
	api.begun.Wait()
	f.under(20)

	f.stopped.Store(true)
	p.signal(t, syscall.SIGTERM)
	eventually(t, "/readyz of the admin port says 503", func() bool {
		status, _ := p.get(t, "/readyz")
		return status == 503
	})
	f.working.Wait()
	echo("while it stops")
	close(api.release)
	if err := <-slow; err != nil {
		t.Errorf("the slow answer: %v", err)
	}
	rest, err := io.ReadAll(lines)
	if err != nil || strings.Count(string(rest), "\n") != 1000 {
		t.Errorf("the rest of the stream has %d lines, and then %v", strings.Count(string(rest), "\n"), err)
	}
	echo("still")
	checkMetrics(t, p)
	if err := socket.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	p.wait(t)

	again := begin(t, args...)
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, order := range f.known {
		r, err := http.NewRequestWithContext(t.Context(), "POST", again.url()+"/orders", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", order[1])
		response, text, err := fetch(c, r)
		if err != nil || response.StatusCode != 201 || response.Header.Get("Idempotent-Replay") != "true" {
			t.Fatalf("%s again: %s, %v", order, text, err)
		}
	}
	if n := int(api.orders.Load()); n != len(f.known) {
		t.Errorf("%d orders were acknowledged, %d made", len(f.known), n)
	}
	response, _, err := fetch(c, must(http.NewRequestWithContext(t.Context(), "GET", again.url()+"/", nil))(t))
	if err != nil {
		t.Fatal(err)
	}
	m := remainingField.FindStringSubmatch(response.Header.Get("RateLimit"))
	if m == nil {
		t.Fatalf("no RateLimit in %v", response.Header)
	}
	if left, err := strconv.Atoi(m[1]); err != nil || capacity-left-1 != f.spent["address"] {
		t.Errorf("%d requests passed, %d are missing from the store, %v", f.spent["address"], capacity-left-1, err)
	}
	again.signal(t, syscall.SIGTERM)
	again.wait(t)
}

// must is the value of a call that cannot fail here.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
