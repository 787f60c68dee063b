package idempotency_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/idempotency"
)

// serve is a server behind the keeper, and where it is.
func serve(t *testing.T, k *idempotency.Keeper, route *idempotency.Route, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(k.Handler(always(route), h))
	t.Cleanup(s.Close)
	return s.URL
}

func TestEventsArePassedThroughAndMarked(t *testing.T) {
	k := memoryKeeper(t)
	gone := make(chan error, 1)
	next := make(chan struct{})
	address := serve(t, k, prepared(t, nil), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		io.WriteString(w, "data: one\n\n")
		http.NewResponseController(w).Flush()
		<-next
		io.WriteString(w, "data: two\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done() // a stream ends with its client
		gone <- context.Cause(r.Context())
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for _, want := range []string{"data: one", "", "data: two"} {
		if lines.Scan(); lines.Text() != want {
			t.Fatalf("got %q, want %q", lines.Text(), want)
		}
		if want == "data: one" { // it came before the second was sent
			next <- struct{}{}
		}
	}
	status, text, _ := send(t, address, "k", strings.NewReader("x"))
	if status != 409 || !strings.Contains(text, idempotency.CodeNotKept) || !strings.Contains(text, "streamed") {
		t.Errorf("%d %s", status, text)
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the stream ended by %v", err)
	}
}

func TestHijackedConnectionsArePassedThroughAndMarked(t *testing.T) {
	k := memoryKeeper(t)
	address := serve(t, k, prepared(t, nil), func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("write: %v", err)
		}
		rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nmine")
		rw.Flush()
	})
	if status, text, _ := send(t, address, "k", strings.NewReader("x")); status != 200 || text != "mine" {
		t.Errorf("%d %s", status, text)
	}
	if status, text, _ := send(t, address, "k", strings.NewReader("x")); status != 409 || !strings.Contains(text, "hijacked") {
		t.Errorf("%d %s", status, text)
	}
}

func TestARunFinishesAfterItsClientHasGone(t *testing.T) {
	k := memoryKeeper(t)
	entered, seen, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	route := prepared(t, nil)
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-seen
		w.WriteHeader(http.StatusCreated)
		w.(http.Flusher).Flush() // into nowhere
		_, err := io.WriteString(w, "it is done")
		done <- errors.Join(err, r.Context().Err())
	})
	middle := k.Handler(always(route), inner)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		go func() {
			<-r.Context().Done() // the server has noticed
			close(seen)
		}()
		middle.ServeHTTP(w, r)
	}))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "POST /orders HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 1\r\n\r\nx")
	<-entered
	conn.Close()
	if err := <-done; err != nil {
		t.Errorf("the handler saw that its client has gone: %v", err)
	}
	s.Config.Handler = middle
	eventually(t, "the response is stored", func() bool {
		record, _, err := k.Lookup(t.Context(), scope("k"))
		return err == nil && record.State == idempotency.Done
	})
	wantAnswer(t, do(middle, post("k", "x")), 201, "it is done", true)
}

func TestAProxyBehindIt(t *testing.T) {
	var o orders
	upstream := httptest.NewServer(&o)
	defer upstream.Close()
	to, err := url.Parse(upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	s := httptest.NewServer(memoryKeeper(t).Handler(always(prepared(t, nil)), proxy))
	defer s.Close()
	for i := range 3 {
		status, text, replay := send(t, s.URL, "k", strings.NewReader("x"))
		if status != 201 || text != "# x" || replay != (i > 0) {
			t.Errorf("%d %q %t", status, text, replay)
		}
	}
	o.wantRuns(t, 1)
}

func TestFlushingHintsAndTrailers(t *testing.T) {
	k := memoryKeeper(t)
	address := serve(t, k, prepared(t, nil), func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "Sum")
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("Late", "too late")
		io.WriteString(w, "one ")
		w.(http.Flusher).Flush()
		io.WriteString(w, "two")
		w.Header().Set("Sum", "7")
		w.Header().Set(http.TrailerPrefix+"Extra", "8")
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "k")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 202 || string(body) != "one two" || resp.Header.Get("Late") != "" {
		t.Errorf("%d %q %v %v", resp.StatusCode, body, resp.Header, err)
	}
	if resp.Trailer.Get("Sum") != "7" || resp.Trailer.Get("Extra") != "8" {
		t.Errorf("trailers %v", resp.Trailer)
	}
	if status, text, replay := send(t, address, "k", strings.NewReader("x")); status != 202 || text != "one two" || !replay {
		t.Errorf("%d %q %t", status, text, replay)
	}
}
