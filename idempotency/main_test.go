package idempotency_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	if config := os.Getenv(workerVariable); config != "" {
		work(config)
		return
	}
	postgrestest.Main(m)
}

var quiet = slog.New(slog.DiscardHandler)

func keeperOn(tb testing.TB, store idempotency.Store) *idempotency.Keeper {
	tb.Helper()
	k, err := idempotency.New(idempotency.Config{Store: store, Log: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { k.Close() })
	return k
}

func memoryKeeper(tb testing.TB) *idempotency.Keeper {
	tb.Helper()
	s, err := idempotency.NewMemory(idempotency.MemoryConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	return keeperOn(tb, s)
}

// prepared is a route for tests, with what change does to it.
func prepared(tb testing.TB, change func(*idempotency.Route)) *idempotency.Route {
	tb.Helper()
	r := &idempotency.Route{Name: "/orders", Tenant: func(r *http.Request) string { return r.Header.Get("Tenant") }}
	if change != nil {
		change(r)
	}
	if err := r.Prepare(); err != nil {
		tb.Fatal(err)
	}
	return r
}

func always(r *idempotency.Route) func(*http.Request) *idempotency.Route {
	return func(*http.Request) *idempotency.Route { return r }
}

// orders is a handler that counts its runs and makes an order of what it gets.
type orders struct{ runs atomic.Int64 }

func (o *orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := o.runs.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Location", "/orders/1")
	w.WriteHeader(http.StatusCreated)
	io.WriteString(w, strings.Repeat("#", int(n))+" "+string(body))
}

func (o *orders) wantRuns(tb testing.TB, want int64) {
	tb.Helper()
	if got := o.runs.Load(); got != want {
		tb.Errorf("the handler ran %d times, want %d", got, want)
	}
}

// post makes a request with a key.
func post(key, body string, change ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	for _, c := range change {
		c(r)
	}
	return r
}

// do serves a request and answers the response.
func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// wantCode checks that a response is a problem of that code.
func wantCode(tb testing.TB, w *httptest.ResponseRecorder, status int, code string) idempotency.Problem {
	tb.Helper()
	var p idempotency.Problem
	if w.Code != status || w.Header().Get("Content-Type") != "application/problem+json" {
		tb.Fatalf("status %d, type %q, want %d and a problem: %s", w.Code, w.Header().Get("Content-Type"), status, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		tb.Fatal(err)
	}
	if p.Code != code || p.Status != status {
		tb.Fatalf("code %s, status %d, want %s, %d", p.Code, p.Status, code, status)
	}
	return p
}

// wantAnswer checks status, body and whether it is a replay.
func wantAnswer(tb testing.TB, w *httptest.ResponseRecorder, status int, body string, replay bool) {
	tb.Helper()
	if w.Code != status || w.Body.String() != body {
		tb.Errorf("got %d %q, want %d %q", w.Code, w.Body, status, body)
	}
	if got := w.Header().Get("Idempotent-Replay") == "true"; got != replay {
		tb.Errorf("replay is %t, want %t", got, replay)
	}
}

func scope(key string) idempotency.Scope {
	return idempotency.Scope{Method: http.MethodPost, Route: "/orders", Key: key}
}

// eventually waits, in real time, for what a background task of a real
// component does.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.Fatalf("not in time: %s", what)
		}
	}
}
