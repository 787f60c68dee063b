package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

// answering is a client of a server that always does the same.
func answering(t *testing.T, h http.HandlerFunc) (*client.Client, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		h(w, r)
	}))
	t.Cleanup(s.Close)
	c, err := client.New(client.Config{URL: s.URL + "/prefix/", Token: "secret-token"})
	if err != nil {
		t.Fatal(err)
	}
	return c, &asked
}

// What may have happened is not sent again.
func TestNothingIsSentTwice(t *testing.T) {
	c, asked := answering(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	})
	_, err := c.Take(t.Context(), client.Take{Entity: "alice"})
	if !errors.Is(err, sluice.ErrUnknown) || errors.Is(err, sluice.ErrUnavailable) || asked.Load() != 1 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
	if strings.Contains(err.Error(), "secret-token") {
		t.Errorf("the token is in %v", err)
	}
}

func TestNobodyThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	c, err := client.New(client.Config{URL: "http://" + address})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Take(t.Context(), client.Take{Entity: "alice"}); !errors.Is(err, sluice.ErrUnavailable) || errors.Is(err, sluice.ErrUnknown) {
		t.Errorf("%v", err)
	}
}

// How long to wait in line is one thing, and how long the answer may take
// another: a take that waits for 1ms is answered by a slow server, too.
func TestHowLongATakeWaits(t *testing.T) {
	var waits []string
	c, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Wait string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		waits = append(waits, body.Wait)
		time.Sleep(5 * time.Millisecond)
		io.WriteString(w, `{"allowed":true,"source":"store"}`) //nolint:errcheck // the client will say
	})
	later, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, wait := range []time.Duration{time.Millisecond, time.Hour, 0} {
		for _, ctx := range []context.Context{t.Context(), later} {
			if _, err := c.Wait(ctx, client.Take{Entity: "alice", Wait: wait}); err != nil {
				t.Error(err)
			}
		}
	}
	if got := strings.Join(waits, " "); got != "1ms 1ms 1m0s 1m0s 1m0s 1m0s" {
		t.Error(got)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.Wait(soon, client.Take{Entity: "alice", Wait: time.Minute}); err != nil {
		t.Error(err)
	}
	if left, err := time.ParseDuration(waits[len(waits)-1]); err != nil || left > 20*time.Second-50*time.Millisecond {
		t.Errorf("%s in line, %v: no time is left for the answer", left, err)
	}
}

func TestContextsEndCalls(t *testing.T) {
	begun := make(chan struct{})
	c, _ := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // until it is read nobody notices that the caller has gone
		close(begun)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := c.Take(ctx, client.Take{Entity: "alice"}); !errors.Is(err, context.Canceled) || !errors.Is(err, sluice.ErrUnknown) {
		t.Errorf("%v", err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	c, _ := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for chunk := []byte(strings.Repeat(" ", 1<<20)); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if _, err := c.Entity(t.Context(), "alice"); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("%v", err)
	}
}

func TestErrors(t *testing.T) {
	var status int
	var kind, body string
	c, _ := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/prefix/v1/") || r.Header.Get("Authorization") != "Bearer secret-token" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Retry-After", "3")
		w.Header().Set("Location", "http://evil.example/")
		w.WriteHeader(status)
		w.Write([]byte(body)) //nolint:errcheck // the client is gone
	})
	const problem = "application/problem+json"
	for _, try := range []struct {
		status     int
		kind, body string
		code       string
		is, isNot  error
	}{
		{404, problem, `{"status":404,"code":"not_found","detail":"no","field":"x"}`, "not_found", catalog.ErrNotFound, sluice.ErrUnknown},
		{412, problem, `{"code":"changed","detail":"no"}`, "changed", catalog.ErrConflict, catalog.ErrNotFound},
		{503, problem, `{"code":"unknown","detail":"no"}`, "unknown", sluice.ErrUnknown, sluice.ErrUnavailable},
		{503, problem, `{"code":"unavailable","detail":"no"}`, "unavailable", sluice.ErrUnavailable, sluice.ErrUnknown},
		{502, "text/html", `<h1>secret-proxy</h1>`, "", sluice.ErrUnknown, sluice.ErrUnavailable},
		{307, "text/html", ``, "", nil, sluice.ErrUnknown},
		{400, problem, `{{{`, "", nil, sluice.ErrUnknown},
	} {
		status, kind, body = try.status, try.kind, try.body
		_, err := c.Entity(t.Context(), "alice")
		var e *client.Error
		if !errors.As(err, &e) || e.Status != try.status || e.Code != try.code || e.RetryAfter != 3*time.Second || e.Error() == "" {
			t.Errorf("%d %s: %#v", try.status, try.body, err)
			continue
		}
		if try.is != nil && !errors.Is(err, try.is) || errors.Is(err, try.isNot) {
			t.Errorf("%d %s: %v", try.status, try.body, err)
		}
	}
	status, kind, body = 200, "application/json", `{"id":7}`
	if _, err := c.Entity(t.Context(), "alice"); err == nil {
		t.Error("an answer that is none")
	}
	body = `{"source":"oracle"}`
	if _, err := c.Take(t.Context(), client.Take{Entity: "alice"}); err == nil || !strings.Contains(err.Error(), "older than the server") {
		t.Errorf("%v", err)
	}
}
