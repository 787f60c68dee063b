package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/wiretest"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
)

var quiet = slog.New(slog.DiscardHandler)

// plain is a policy that is in nobody's way.
const plain = `
version: 1
limits: {all: {per: ip, limit: 100000/minute}}
headers: {send: [ietf]}
`

func gate(t testing.TB, text string) *httplimit.Gate {
	t.Helper()
	p, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	g, err := httplimit.Open(t.Context(), httplimit.Config{Limiter: sluice.New(store), Policy: p, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

// running starts a gateway on a socket and gives its address.
func running(t testing.TB, c gateway.Config) (*gateway.Gateway, string) {
	t.Helper()
	if c.Log == nil {
		c.Log = quiet
	}
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		g.Shutdown(ctx)
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return g, "http://" + l.Addr().String()
}

func upstream(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

var do = wiretest.Do

// echo answers with what arrived.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"method": r.Method, "uri": r.RequestURI, "host": r.Host, "header": r.Header})
}

type echoed struct {
	Method, URI, Host string
	Header            http.Header
}

func TestWhatArrivesAtTheUpstream(t *testing.T) {
	up := upstream(t, echo)
	_, stranger := running(t, gateway.Config{Upstream: up + "/base", Gate: gate(t, plain)})
	_, behind := running(t, gateway.Config{Upstream: up, Gate: gate(t, plain+"identity: {address: {trusted_proxies: [127.0.0.0/8]}}\n")})
	_, forwarded := running(t, gateway.Config{Upstream: up, Gate: gate(t, plain+"identity: {address: {trusted_proxies: [127.0.0.0/8], header: Forwarded}}\n")})
	sent := []string{
		"X-Forwarded-For", "203.0.113.7", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "api.example.com", "X-Real-IP", "6.6.6.6",
		"Forwarded", "for=198.51.100.1", "Connection", "X-Secret-Hop", "X-Secret-Hop", "1", "Proxy-Authorization", "x", "Te", "gzip, trailers", "X-Kept", "yes",
	}
	for name, test := range map[string]struct{ address, uri, xff, proto, host, real string }{
		"a stranger's word is nothing":  {stranger, "/base/a%2Fb/../c?x=1&y=%20", "127.0.0.1", "http", "", "127.0.0.1"},
		"a trusted proxy's word counts": {behind, "/a%2Fb/../c?x=1&y=%20", "203.0.113.7, 127.0.0.1", "https", "api.example.com", "203.0.113.7"},
		"in the header that it writes":  {forwarded, "/a%2Fb/../c?x=1&y=%20", "198.51.100.1, 127.0.0.1", "https", "api.example.com", "198.51.100.1"},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := do(t, "GET", test.address+"/a%2Fb/../c?x=1&y=%20", nil, sent...)
			var got echoed
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatal(err, body)
			}
			h := got.Header
			if got.URI != test.uri || h.Get("X-Forwarded-For") != test.xff || h.Get("X-Forwarded-Proto") != test.proto || h.Get("X-Real-Ip") != test.real {
				t.Errorf("got %+v", got)
			}
			if test.host != "" && h.Get("X-Forwarded-Host") != test.host {
				t.Errorf("host %q", h.Get("X-Forwarded-Host"))
			}
			if h.Get("X-Kept") != "yes" || h.Get("X-Secret-Hop") != "" || h.Get("Proxy-Authorization") != "" || h.Get("Forwarded") != "" || h.Get("Connection") != "" || h.Get("Te") != "trailers" {
				t.Errorf("headers %v", h)
			}
			if id := response.Header.Get("X-Request-Id"); len(id) < 20 || h.Get("X-Request-Id") != id {
				t.Errorf("request ids %q and %q", id, h.Get("X-Request-Id"))
			}
		})
	}
}

func TestRequestIDs(t *testing.T) {
	_, address := running(t, gateway.Config{Upstream: upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "the-upstreams-own")
	}), Gate: gate(t, plain)})
	for sent, kept := range map[string]bool{"abc-123": true, strings.Repeat("x", 129): false, "a b": false, "<script>": false} {
		response, _ := do(t, "GET", address, nil, "X-Request-Id", sent)
		ids := response.Header.Values("X-Request-Id")
		if len(ids) != 1 || (ids[0] == sent) != kept {
			t.Errorf("%.20q: got %q", sent, ids)
		}
	}
}

func TestTheUpstreamsLimitHeadersGiveWay(t *testing.T) {
	_, address := running(t, gateway.Config{Upstream: upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"theirs";r=1;t=1`)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(429)
	}), Gate: gate(t, plain)})
	response, _ := do(t, "GET", address, nil)
	if v := response.Header.Values("RateLimit"); len(v) != 1 || !strings.Contains(v[0], `"all";r=99999`) || response.Header.Get("Retry-After") != "7" || response.StatusCode != 429 {
		t.Errorf("%d %v", response.StatusCode, response.Header)
	}
}

func TestServerSentEventsArriveOneByOne(t *testing.T) {
	next := make(chan string)
	_, address := running(t, gateway.Config{Upstream: upstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for e := range next {
			fmt.Fprintf(w, "data: %s\n\n", e)
			w.(http.Flusher).Flush()
		}
	}), Gate: gate(t, plain)})
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for _, e := range []string{"one", "two", "three"} {
		next <- e
		if !lines.Scan() || lines.Text() != "data: "+e || !lines.Scan() {
			t.Fatalf("got %q, %v", lines.Text(), lines.Err())
		}
	}
	close(next)
	if lines.Scan() {
		t.Errorf("more: %q", lines.Text())
	}
}

func TestWebSocketsPass(t *testing.T) {
	_, address := running(t, gateway.Config{Upstream: upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		for {
			kind, b, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if err := c.Write(r.Context(), kind, append([]byte("echo "), b...)); err != nil {
				return
			}
		}
	}), Gate: gate(t, strings.Replace(plain, "limits: {", "limits: {sockets: {per: everyone, limit: 1 concurrent}, ", 1))})
	c, response, err := websocket.Dial(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.Header.Get("RateLimit") == "" || response.Header.Get("X-Request-Id") == "" {
		t.Errorf("headers %v", response.Header)
	}
	for _, m := range []string{"hello", "again"} {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(m)); err != nil {
			t.Fatal(err)
		}
		if _, b, err := c.Read(t.Context()); err != nil || string(b) != "echo "+m {
			t.Fatal(string(b), err)
		}
	}
	if second, _ := do(t, "GET", address, nil); second.StatusCode != 429 {
		t.Errorf("a second one while the first is open: %d", second.StatusCode)
	}
	c.Close(websocket.StatusNormalClosure, "")
	for {
		if third, _ := do(t, "GET", address, nil); third.StatusCode != 429 {
			break
		}
	}
}

func client(t testing.TB, h2 bool) *http.Client {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(h2)
	p.SetHTTP1(!h2)
	tr := &http.Transport{Protocols: p}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestHTTP2WithoutTLSOnBothSides(t *testing.T) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("X-Proto", r.Proto)
		http.NewResponseController(w).Flush()
		s := bufio.NewScanner(r.Body)
		for s.Scan() { // both directions at once
			fmt.Fprintf(w, "echo %s\n", s.Text())
			http.NewResponseController(w).Flush()
		}
		w.Header().Set("Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
	}))
	up.Config.Protocols = protocols
	up.Start()
	t.Cleanup(up.Close)
	_, address := running(t, gateway.Config{Upstream: strings.Replace(up.URL, "http:", "h2c:", 1), Gate: gate(t, plain)})
	body, w := io.Pipe()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", address+"/svc/Method", body)
	r.Header.Set("Te", "trailers")
	response, err := client(t, true).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.Proto != "HTTP/2.0" || response.Header.Get("X-Proto") != "HTTP/2.0" || response.Header.Get("RateLimit") == "" {
		t.Errorf("%s %v", response.Proto, response.Header)
	}
	lines := bufio.NewScanner(response.Body)
	for _, m := range []string{"one", "two"} {
		io.WriteString(w, m+"\n")
		if !lines.Scan() || lines.Text() != "echo "+m {
			t.Fatalf("%q %v", lines.Text(), lines.Err())
		}
	}
	w.Close()
	if lines.Scan() || response.Trailer.Get("Grpc-Status") != "0" || response.Trailer.Get("X-Late") != "yes" {
		t.Errorf("%q, trailers %v", lines.Text(), response.Trailer)
	}
}

func TestBodiesPassUnchangedAndAreBounded(t *testing.T) {
	_, address := running(t, gateway.Config{MaxBody: 1 << 20, Upstream: upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
		w.Write(b)
	}), Gate: gate(t, plain)})
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	response, body := do(t, "POST", address, bytes.NewReader(big), "Accept-Encoding", "br")
	if response.StatusCode != 200 || body != string(big) || response.Header.Get("Content-Encoding") != "br" {
		t.Errorf("%d, %d bytes, %v", response.StatusCode, len(body), response.Header)
	}
	for name, reader := range map[string]io.Reader{
		"declared": bytes.NewReader(append(big, 'x')),
		"chunked":  io.MultiReader(bytes.NewReader(big), strings.NewReader("x")),
	} {
		if response, body := do(t, "POST", address, reader); response.StatusCode != 413 || !strings.Contains(body, "ERR_BODY_TOO_LARGE") {
			t.Errorf("%s: %d %s", name, response.StatusCode, body)
		}
	}
	if response, _ := do(t, "GET", address, nil, "X-Big", strings.Repeat("x", 80<<10)); response.StatusCode != 431 {
		t.Errorf("a large header: %d", response.StatusCode)
	}
}

func TestAnUpstreamThatDoesNotAnswer(t *testing.T) {
	hang := make(chan struct{})
	slow := upstream(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(hang) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	l.Close()
	for name, test := range map[string]struct {
		upstream string
		status   int
		code     string
	}{
		"slow": {slow, 504, "ERR_UPSTREAM_TIMEOUT"},
		"gone": {"http://" + gone, 502, "ERR_UPSTREAM"},
	} {
		_, address := running(t, gateway.Config{Upstream: test.upstream, ResponseTimeout: 50 * time.Millisecond, Gate: gate(t, plain)})
		response, body := do(t, "GET", address, nil)
		var p httplimit.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil || response.StatusCode != test.status || p.Code != test.code || response.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %d %s %v", name, response.StatusCode, body, err)
		}
	}
}

func TestAClientThatStalls(t *testing.T) {
	cut := make(chan struct{})
	_, address := running(t, gateway.Config{StallTimeout: time.Second, Upstream: upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		chunk := make([]byte, 1<<20)
		for range 64 {
			if _, err := w.Write(chunk); err != nil {
				close(cut)
				return
			}
		}
	}), Gate: gate(t, plain)})
	host := strings.TrimPrefix(address, "http://")
	sending, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer sending.Close()
	fmt.Fprintf(sending, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
	if response, err := http.ReadResponse(bufio.NewReader(sending), nil); err != nil || response.StatusCode != 408 {
		t.Errorf("sending: %v %v", response, err)
	}
	receiving, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer receiving.Close()
	fmt.Fprintf(receiving, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	first := make([]byte, 16)
	if _, err := io.ReadFull(receiving, first); err != nil {
		t.Fatal(err)
	}
	<-cut // nobody reads, until the upstream feels it
	if n, err := io.Copy(io.Discard, receiving); err == nil && n >= 64<<20 {
		t.Error("a client that read nothing for ten times the timeout got everything")
	}
}

func TestShutdownBreaksNothing(t *testing.T) {
	enter, leave := make(chan struct{}, 8), make(chan struct{})
	g, address := running(t, gateway.Config{Upstream: upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			c, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			enter <- struct{}{}
			c.Read(r.Context())
			c.CloseNow()
			return
		}
		enter <- struct{}{}
		<-leave
		io.WriteString(w, "done")
	}), Gate: gate(t, plain)})
	ws, _, err := websocket.Dial(t.Context(), address+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-enter
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if response, body := do(t, "GET", address+"/slow", nil); response.StatusCode != 200 || body != "done" {
				t.Errorf("%d %q", response.StatusCode, body)
			}
		})
		<-enter
	}
	down := make(chan error)
	go func() { down <- g.Shutdown(t.Context()) }()
	for { // until nothing new is accepted
		c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			break
		}
		c.Close()
	}
	select {
	case err := <-down:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	close(leave)
	wg.Wait()
	ws.Close(websocket.StatusNormalClosure, "")
	if err := <-down; err != nil {
		t.Error(err)
	}
}

func TestShutdownInAHurry(t *testing.T) {
	enter := make(chan struct{})
	g, address := running(t, gateway.Config{Upstream: upstream(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		close(enter)
		c.Read(r.Context())
	}), Gate: gate(t, plain)})
	ws, _, err := websocket.Dial(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.CloseNow()
	<-enter
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, _, err := ws.Read(t.Context()); err == nil {
		t.Error("the WebSocket is still open")
	}
}

func TestConfigs(t *testing.T) {
	g := gate(t, plain)
	for field, c := range map[string]gateway.Config{
		"gateway.gate":          {Upstream: "http://x"},
		"gateway.upstream":      {Gate: g, Upstream: "ftp://x"},
		"gateway.max_body":      {Gate: g, Upstream: "http://x", MaxBody: -2},
		"gateway.max_header":    {Gate: g, Upstream: "http://x", MaxHeader: 1},
		"gateway.stall_timeout": {Gate: g, Upstream: "http://x", StallTimeout: -1},
	} {
		_, err := gateway.New(c)
		var fe *sluice.FieldError
		if !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
