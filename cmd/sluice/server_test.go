package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/server"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
	"github.com/sluice-go/sluice/sqlite/replaystore"
	"github.com/sluice-go/sluice/sqlite/slotstore"
)

// epoch is where the clocks of servers under test stand still. It is ahead, so
// that what is set until then has not lapsed for the command either.
var epoch = time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)

// testServer is a real one, on a socket: buckets in memory, the rest in SQLite.
type testServer struct {
	url      string
	recorder *catalog.Recorder
	replays  *idempotency.Keeper
	keys     []string // ids that sessions have seen
	clock    *testclock.Clock

	mu    sync.Mutex
	asked []*http.Request
}

// both tells the usage recorder and the activity.
type both struct {
	*catalog.Recorder
	*server.Activity
}

func (b both) Decided(t *sluice.Take, d *sluice.Decision, err error, took time.Duration) {
	b.Activity.Decided(t, d, err, took)
}

func (b both) Waited(t *sluice.Take, d time.Duration, ok bool) { b.Recorder.Waited(t, d, ok) }

func (b both) Consumed(k sluice.Key, l sluice.Limit, c sluice.Consumption) {
	b.Recorder.Consumed(k, l, c)
}

func startServer(t testing.TB, access server.Access) *testServer {
	t.Helper()
	s := &testServer{clock: testclock.New(epoch)}
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.DiscardHandler)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	db, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "sluice.db"))
	must(err)
	buckets, err := memory.Open(memory.Config{Clock: s.clock.Now, Log: log})
	must(err)
	cat, err := catalog.Open(ctx, catalog.Config{Store: catalogstore.New(db), Clock: s.clock.Now, Log: log})
	must(err)
	must(cat.Declare(catalog.DefaultNamespace, &catalog.Declaration{
		Name: "policy", System: catalog.Limits{"rpm": {Limit: sluice.MustParse("100/minute burst 20")}},
	}))
	s.recorder, err = catalog.NewRecorder(catalog.RecorderConfig{Store: catalogstore.New(db), Clock: s.clock.Now, Log: log})
	must(err)
	slots, err := schedule.New(schedule.Config{Store: slotstore.New(db), Clock: s.clock.Now, Log: log})
	must(err)
	s.replays, err = idempotency.New(idempotency.Config{Store: replaystore.New(db, s.clock.Now), Log: log})
	must(err)
	activity := server.NewActivity(0)
	p, err := policy.Parse("test.yaml", []byte("version: 1\nlimits: {api: {match: /api/**, limit: 60/minute}}\nendpoints: {search: {match: POST /api/search, cost: 3}}\n"))
	must(err)
	limiter := sluice.New(buckets, sluice.WithObserver(both{s.recorder, activity}))
	gate, err := httplimit.Open(t.Context(), httplimit.Config{Limiter: limiter, Policy: p, Resolver: cat, Log: log})
	must(err)
	handler, err := server.Handler(server.Config{
		Limiter: limiter, Gate: gate,
		Catalog: cat, Activity: activity, Slots: slots, Replays: s.replays, Access: access, Log: log,
	})
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	s.url = "http://" + listener.Addr().String()
	t.Setenv("SLUICE_SERVER", s.url)
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			s.asked = append(s.asked, r.Clone(context.Background()))
			s.mu.Unlock()
			handler.ServeHTTP(w, r)
		}), log)
	}()
	t.Cleanup(func() {
		cancel()
		for _, err := range []error{<-ended, gate.Close(), s.replays.Close(), s.recorder.Close(), cat.Close(), buckets.Close(), db.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func openServer(t testing.TB) *testServer { return startServer(t, server.Access{Open: true}) }

// said is what a command printed.
type said struct {
	stdout, stderr string
	code           int
}

// sluice runs a command against the server.
func (s *testServer) sluice(t testing.TB, stdin string, args ...string) said {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return said{stdout.String(), stderr.String(), code}
}

// ok runs a command that must succeed, and answers what it printed.
func (s *testServer) ok(t testing.TB, args ...string) string {
	t.Helper()
	got := s.sluice(t, "", args...)
	if got.code != exitDone {
		t.Fatalf("sluice %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.stdout, got.stderr)
	}
	return got.stdout
}
