package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
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
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/server"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
	"github.com/sluice-go/sluice/sqlite/replaystore"
	"github.com/sluice-go/sluice/sqlite/slotstore"
)

// The tokens of the servers under test.
const (
	adminToken   = "admin-token-0123456789"
	serviceToken = "service-token-01234567890"
	readToken    = "read-token-01234567890"
)

// theater is a whole server on a socket, with everything that it can have:
// catalog, slots and replays on SQLite, buckets in memory.
type theater struct {
	url        string
	buckets    *memory.Store
	limiter    *sluice.Limiter
	catalog    *catalog.Catalog
	recorder   *catalog.Recorder
	keeper     *idempotency.Keeper
	now        *testclock.Clock // of the buckets
	replayTime *testclock.Clock
	records    catalog.Store
	log        *logBook
	stop       func() error
	handler    http.Handler
	transport  *http.Transport
}

// logBook keeps what was logged.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type observers []sluice.Observer

func (all observers) Decided(t *sluice.Take, d *sluice.Decision, err error, took time.Duration) {
	for _, o := range all {
		o.Decided(t, d, err, took)
	}
}

func (all observers) Waited(t *sluice.Take, waited time.Duration, served bool) {
	for _, o := range all {
		o.Waited(t, waited, served)
	}
}

func (all observers) Consumed(k sluice.Key, l sluice.Limit, c sluice.Consumption) {
	for _, o := range all {
		o.Consumed(k, l, c)
	}
}

// closes closes what a test has opened when it ends.
func closes(t testing.TB, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// stage starts a server that is open to all, unless change says otherwise.
func stage(t testing.TB, change func(*server.Config)) *theater {
	t.Helper()
	s := &theater{transport: &http.Transport{}, log: &logBook{}}
	now := time.Now().Truncate(time.Microsecond) // as stores count
	s.now, s.replayTime = testclock.New(now), testclock.New(now)
	log := slog.New(slog.NewTextHandler(s.log, nil))

	db := must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "sluice.db")))(t)
	closes(t, db)
	store := must(memory.Open(memory.Config{Clock: s.now.Now, Log: log}))(t)
	closes(t, store)
	s.buckets = store
	records := catalogstore.New(db)
	s.records = records
	s.catalog = must(catalog.Open(t.Context(), catalog.Config{Store: records, Log: log}))(t)
	closes(t, s.catalog)
	s.recorder = must(catalog.NewRecorder(catalog.RecorderConfig{Store: records, Log: log}))(t)
	closes(t, s.recorder)
	slots := must(schedule.New(schedule.Config{Store: slotstore.New(db), Log: log}))(t)
	s.keeper = must(idempotency.New(idempotency.Config{Store: replaystore.New(db, s.replayTime.Now), Log: log}))(t)
	closes(t, s.keeper)
	activity := server.NewActivity(0)
	s.limiter = sluice.New(store, sluice.WithObserver(observers{s.recorder, activity}))

	config := server.Config{
		Limiter: s.limiter, Catalog: s.catalog, Activity: activity, Slots: slots, Replays: s.keeper, Log: log,
		Access: server.Access{Tokens: []server.Token{
			{Name: "admin", Secret: adminToken, Role: server.RoleAdmin},
			{Name: "service", Secret: serviceToken, Role: server.RoleService},
			{Name: "reader", Secret: readToken, Role: server.RoleRead},
		}},
	}
	if change != nil {
		change(&config)
	}
	s.handler = must(server.Handler(config))(t)
	s.url, s.stop = serveOn(t, func(ctx context.Context, l net.Listener) error { return server.Serve(ctx, l, s.handler, log) })
	t.Cleanup(s.transport.CloseIdleConnections) // or the server waits for them a while
	return s
}

// impatient serves anew, for callers who have little time.
func (s *theater) impatient(t testing.TB, each time.Duration) {
	log := slog.New(slog.NewTextHandler(s.log, nil))
	s.url, s.stop = serveOn(t, func(ctx context.Context, l net.Listener) error {
		return server.ServeImpatiently(ctx, l, s.handler, log, each)
	})
}

// serveOn serves on a free port until the test ends.
func serveOn(t testing.TB, serve func(context.Context, net.Listener) error) (url string, stop func() error) {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, listener) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String(), stop
}

// as is a client that brings a token. What it gets is checked against the
// description of the server.
func (s *theater) as(t testing.TB, token string) *client.Client {
	t.Helper()
	return must(client.New(client.Config{
		URL: s.url, Token: token, HTTPClient: &http.Client{Transport: checking{t, s.transport}},
	}))(t)
}

func (s *theater) admin(t testing.TB) *client.Client { return s.as(t, adminToken) }

// raw sends a request as it is. The header's pairs are names and values.
func (s *theater) raw(t testing.TB, method, path, body string, header map[string]string) reply {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body)))(t)
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response := must(checking{t, s.transport}.RoundTrip(request))(t)
	defer response.Body.Close()
	content := must(io.ReadAll(response.Body))(t)
	r := reply{status: response.StatusCode, header: response.Header, body: string(content)}
	if strings.Contains(response.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(content, &r.json); err != nil {
			t.Fatalf("%s: %v", content, err)
		}
	}
	return r
}

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// limits makes limits of pairs of names and numbers.
func limits(pairs ...string) catalog.Limits {
	l := catalog.Limits{}
	for i := 0; i+1 < len(pairs); i += 2 {
		l[pairs[i]] = catalog.Setting{Limit: sluice.MustParse(pairs[i+1])}
	}
	return l
}
