package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/server"
)

// Whatever a route reads, it reads a bounded part of.
func TestBodiesThatAreTooLarge(t *testing.T) {
	s := stage(t, open)
	filler := strings.Repeat(" ", 64<<10)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/take", `{"entity":"a"` + filler + `}`},
		{"POST", "/v1/takes", `{"takes":[` + filler + `]}`},
		{"POST", "/v1/leases", `{"entity":"a"` + filler + `}`},
		{"PATCH", "/v1/leases/x", `{"costs":{` + filler + `}}`},
		{"POST", "/v1/explain", `{"entity":"a"` + filler + `}`},
		{"PUT", "/v1/entities/a", `{"name":"` + filler + `"}`},
		{"PUT", "/v1/limits/system", `{` + filler + `"limits":{}}`},
		{"POST", "/v1/keys", `{"entity":"a"}` + filler},
		{"POST", "/v1/slots/assign", `{"event":"a","payload":"` + filler + `"}`},
		{"POST", "/v1/replays/claim", `{` + filler + `}`},
		{"POST", "/v1/apply", "# " + strings.Repeat(" ", policy.MaxFile)},
	} {
		r := s.raw(t, c.method, c.path, c.body, nil)
		if r.status != 413 || r.json["code"] != "too_large" || r.json["field"] != "body" {
			t.Errorf("%s %s: %d %.200s", c.method, c.path, r.status, r.body)
		}
	}
	// Chunks without an end are cut off, too.
	endless, stop := io.Pipe()
	defer endless.Close()
	go func() {
		for {
			if _, err := io.WriteString(stop, filler); err != nil {
				return
			}
		}
	}()
	response := must(http.Post(s.url+"/v1/take", "application/json", endless))(t)
	response.Body.Close()
	if response.StatusCode != 413 {
		t.Errorf("an endless body: %d", response.StatusCode)
	}
	request := must(http.NewRequest("GET", s.url+"/healthz", nil))(t)
	request.Header.Set("X-Long", strings.Repeat("x", 128<<10))
	response = must(http.DefaultClient.Do(request))(t)
	response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long header: %d", response.StatusCode)
	}
	// A batch may be larger than that.
	c := s.as(t, "")
	must(c.SetSlotPlan(t.Context(), schedule.Plan{MaxPerWindow: 10_000}))(t)
	events := make([]schedule.Request, 200)
	for i := range events {
		events[i] = schedule.Request{Event: fmt.Sprint(i), Payload: []byte(`"` + strings.Repeat("x", 1000) + `"`)}
	}
	if results := must(c.AssignSlots(t.Context(), events))(t); len(results) != len(events) || results[199].Err != nil {
		t.Errorf("%d results", len(results))
	}
}

// Callers who dawdle are cut off, and do not keep a connection for ever.
func TestSlowCallersAreCutOff(t *testing.T) {
	s := stage(t, open)
	gaveUp := make(chan struct{}, 1)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		for err == nil && r.URL.Path != "/short" { // until the caller must have stopped to fetch it
			_, err = w.Write(make([]byte, 1<<20))
		}
		if err != nil {
			gaveUp <- struct{}{}
		}
	})
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- server.ServeImpatiently(ctx, listener, handler, slog.New(slog.NewTextHandler(s.log, nil)), 100*time.Millisecond)
	}()
	for name, sent := range map[string]string{
		"says nothing":         "",
		"half a header":        "POST / HTTP/1.1\r\nHost: x\r\n",
		"half a body":          "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc",
		"never reads":          "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"nothing after a call": "GET /short HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn := must(net.Dial("tcp", listener.Addr().String()))(t)
		if _, err := io.WriteString(conn, sent); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(name, "body") || strings.Contains(name, "reads") {
			<-gaveUp // without this end doing anything
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, bufio.NewReader(conn)); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
			t.Errorf("%s: the connection is still there", name)
		}
		conn.Close()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// A take may wait for longer than other requests may take.
func TestLongWaitsAreNotCutOff(t *testing.T) {
	s := stage(t, open)
	s.impatient(t, 200*time.Millisecond)
	r := s.raw(t, "POST", "/v1/take", `{"entity":"a","limits":{"l":"1/800ms"}}`, nil)
	if r.status != 200 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	go func() {
		for s.limiter.WaitingAll().Length == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(400 * time.Millisecond) // for longer than others may take
		s.now.Advance(time.Second)
	}()
	if r = s.raw(t, "POST", "/v1/take", `{"entity":"a","limits":{"l":"1/800ms"},"wait":"30s"}`, nil); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}
