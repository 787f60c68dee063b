package idempotency_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/redis/replaystore"
)

func redisKeeper(tb testing.TB, server *redistest.Server, timeout time.Duration) *idempotency.Keeper {
	tb.Helper()
	s, err := replaystore.Open(context.Background(), redis.Config{Address: server.URL(), Timeout: timeout, Log: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return keeperOn(tb, s)
}

func TestWithoutAStore(t *testing.T) {
	server := redistest.Start(t)
	k := redisKeeper(t, server, 2*time.Second)
	var o orders
	anyway := k.Handler(always(prepared(t, nil)), &o)
	careful := k.Handler(always(prepared(t, func(r *idempotency.Route) { r.OnUnavailable = idempotency.Refuse })), &o)

	for name, fault := range map[string]struct{ fail, mend func() }{
		"killed": {server.Kill, server.Restart},
		"hangs":  {server.Pause, server.Resume},
	} {
		t.Run(name, func(t *testing.T) {
			o.runs.Store(0)
			fault.fail()
			w := do(careful, post("careful", "x"))
			wantCode(t, w, 503, idempotency.CodeUnavailable)
			if w.Header().Get("Retry-After") != "1" {
				t.Error("no Retry-After")
			}
			o.wantRuns(t, 0)
			w = do(anyway, post("anyway", "x"))
			wantAnswer(t, w, 201, "# x", false)
			if w.Header().Get("Idempotent-Store") != "unavailable" {
				t.Error("the response does not say that the store was away")
			}
			fault.mend()
			// A claim that hung may have been made; it is taken back.
			eventually(t, "the key is free", func() bool {
				return do(careful, post("careful", "x")).Code == 201
			})
			wantAnswer(t, do(careful, post("careful", "x")), 201, "## x", true)
			server.Must("FLUSHALL")
		})
	}
}

// The work is done, and then the store cannot be told. It is told as soon as
// it is back, so that the work is not done twice.
func TestAStoreThatIsAwayAtTheEndIsToldLater(t *testing.T) {
	server := redistest.Start(t)
	k := redisKeeper(t, server, 2*time.Second)
	runs := 0
	h := k.Handler(always(prepared(t, nil)), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		runs++
		server.Pause()
		w.WriteHeader(http.StatusCreated)
		w.Write([]byte("done"))
	}))
	w := do(h, post("k", "x"))
	wantAnswer(t, w, 201, "done", false)
	if w.Header().Get("Idempotent-Store") != "unavailable" {
		t.Error("the response does not say that it is not stored")
	}
	server.Resume()
	eventually(t, "the response is stored", func() bool {
		record, _, err := k.Lookup(t.Context(), scope("k"))
		return err == nil && record.State == idempotency.Done
	})
	wantAnswer(t, do(h, post("k", "x")), 201, "done", true)
	if runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

// scripts is how many calls a Redis has got.
func scripts(server *redistest.Server) int {
	_, rest, _ := strings.Cut(server.Must("INFO", "commandstats"), "cmdstat_evalsha:calls=")
	n, _, _ := strings.Cut(rest, ",")
	calls, _ := strconv.Atoi(n)
	return calls
}

func TestRoundTrips(t *testing.T) {
	server := redistest.Start(t)
	k := redisKeeper(t, server, time.Minute)
	var o orders
	h := k.Handler(always(prepared(t, nil)), &o)
	do(h, post("load the script", "x"))
	do(h, post("load-the-script", "x"))
	for _, test := range []struct {
		what string
		r    *http.Request
		want int
	}{
		{"first run", post("k", "x"), 2},
		{"replay", post("k", "x"), 1},
		{"mismatch", post("k", "y"), 1},
	} {
		before := scripts(server)
		do(h, test.r)
		if got := scripts(server) - before; got != test.want {
			t.Errorf("%s: %d round trips, want %d", test.what, got, test.want)
		}
	}
}
