package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/replaystore"
)

var writesCount = flag.Int("writes.count", 600, "how many keyed writes TestWritesRunOnce sends")

// ledger is an upstream that counts what it executes by key, and misbehaves as
// the path says.
type ledger struct {
	mu   sync.Mutex
	runs map[string]int
	stop chan struct{}
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil || r.Method == http.MethodGet {
		return
	}
	behave := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	if behave == "before" {
		panic(http.ErrAbortHandler) // the connection drops, and nothing was done
	}
	l.mu.Lock()
	l.runs[r.Header.Get("X-Write")]++
	l.mu.Unlock()
	switch behave {
	case "after":
		panic(http.ErrAbortHandler)
	case "late":
		select {
		case <-l.stop:
		case <-r.Context().Done():
		}
	case "busy":
		w.WriteHeader(http.StatusInternalServerError)
	default:
		w.WriteHeader(http.StatusCreated)
	}
}

func (l *ledger) count(write string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[write]
}

// order is one keyed write, and what its client was told.
type order struct {
	name, method, path string
	unknown            bool // nobody answered it, or that nobody knows
	settled            bool
}

// TestWritesRunOnce sends keyed writes of all methods through a gateway and with
// Send, to an upstream that drops connections before and after it executes,
// answers too late, and is killed, as is the gateway. Nothing is executed twice,
// and every write that may have been is unknown until it is settled, with the
// commands of the runbook.
func TestWritesRunOnce(t *testing.T) {
	l := &ledger{runs: map[string]int{}, stop: make(chan struct{})}
	defer close(l.stop)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	upstream := serveOn(listener, l)
	defer func() { upstream.Close() }()
	dir := t.TempDir()
	policy, db := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "sluice.db")
	if err := os.WriteFile(policy, []byte("version: 1\nlimits: {all: {limit: 1000000/s}}\nidempotency: {orders: {match: '/**', store_errors: true, max_run: 2s}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() *process {
		return begin(t, "gateway", "--upstream", "http://"+listener.Addr().String(), "--policy", policy, "--catalog", db,
			"--admin-listen", "127.0.0.1:0", "--response-timeout", "200ms")
	}
	p := start()
	methods, behaviours := []string{"POST", "PUT", "PATCH", "DELETE"}, []string{"ok", "before", "after", "ok", "late", "ok", "busy", "ok"}
	const batch = 200
	var unknown []order
	kills := 0
	for first := 0; first < *writesCount; first += batch {
		var mu sync.Mutex
		var wg sync.WaitGroup
		line := make(chan order)
		for range 16 {
			wg.Go(func() {
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				for w := range line {
					if w.unknown = w.send(t, client, p.url()); w.unknown {
						mu.Lock()
						unknown = append(unknown, w)
						mu.Unlock()
					}
				}
			})
		}
		for i := first; i < min(first+batch, *writesCount); i++ {
			if i == first+batch/2 { // one of the two dies with requests in flight
				if kills++; kills%2 == 1 {
					p.command.Process.Kill()
				} else {
					upstream.Close()
				}
			}
			line <- order{name: fmt.Sprint("w", i), method: methods[i%4], path: "/" + behaviours[i/4%8]}
		}
		close(line)
		wg.Wait()
		if kills%2 == 1 {
			p.command.Wait()
			p.ended = true
			p = start()
		} else {
			if listener, err = net.Listen("tcp", listener.Addr().String()); err != nil {
				t.Fatal(err)
			}
			upstream = serveOn(listener, l)
		}
	}
	twice := 0
	l.mu.Lock()
	for name, n := range l.runs {
		if n > 1 {
			twice++
			t.Errorf("%s was executed %d times", name, n)
		}
	}
	executed := len(l.runs)
	l.mu.Unlock()
	settled, ran := settleAll(t, l, p, unknown)
	sent := sendAll(t, l, "http://"+listener.Addr().String(), db, *writesCount/10)
	t.Logf("%d writes through the gateway, %d kills: %d executed, %d twice, %d unanswered or unknown, of which %d were settled and %d ran when repeated; %d sent with Send",
		*writesCount, kills, executed, twice, len(unknown), settled, ran, sent)
	if len(unknown) == 0 || settled == 0 {
		t.Error("nothing was unknown")
	}
}

func serveOn(l net.Listener, h http.Handler) *httptest.Server {
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}}
	s.Start()
	return s
}

// send sends a write once, and reports whether it is unknown what became of it.
func (w *order) send(t *testing.T, client *http.Client, at string) bool {
	body := strings.Repeat("x", len(w.name)%2*10)
	r, err := http.NewRequestWithContext(t.Context(), w.method, at+w.path, struct{ io.Reader }{strings.NewReader(body)})
	if err != nil {
		t.Error(err)
		return false
	}
	r.Header.Set("Idempotency-Key", w.name)
	r.Header.Set("X-Write", w.name)
	response, err := client.Do(r)
	if err != nil {
		return true // the gateway is away
	}
	response.Body.Close()
	unknown := response.Header.Get("Idempotent-Outcome") == "unknown"
	switch behave := w.path[1:]; {
	case w.settled:
	case (behave == "after" || behave == "late") && response.StatusCode < 500 && response.StatusCode != 409:
		t.Errorf("%s %s: %d", w.method, w.path, response.StatusCode)
	case behave == "ok" && !unknown && response.StatusCode != 201 && response.StatusCode != 502:
		t.Errorf("%s %s: %d", w.method, w.path, response.StatusCode)
	}
	return unknown
}

// runbook are the commands of docs/operations.md about a write whose outcome is
// unknown.
func runbook(t *testing.T) (lookup, never, done []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	find := func(pattern string) []string {
		line := regexp.MustCompile(`(?m)^sluice (replays ` + pattern + `.*)$`).FindSubmatch(text)
		if line == nil {
			t.Fatalf("docs/operations.md has no sluice replays %s", pattern)
		}
		command, _, _ := strings.Cut(string(line[1]), "#")
		return strings.Fields(strings.ReplaceAll(command, "user:42", "ip:127.0.0.1"))
	}
	return find("lookup"), find("settle.*--never-ran"), find("settle.*--status")
}

// settleAll asks about every write that was left unknown, and settles it as the
// ledger has it.
func settleAll(t *testing.T, l *ledger, p *process, unknown []order) (settled, ran int) {
	t.Helper()
	lookup, never, done := runbook(t)
	answer := filepath.Join(t.TempDir(), "answer.json")
	if err := os.WriteFile(answer, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openServer(t)
	about := func(command []string, w order) said {
		args := strings.NewReplacer("POST", w.method, "8e03978e", w.name, "answer.json", answer)
		var all []string
		for _, a := range command {
			all = append(all, args.Replace(a))
		}
		return s.sluice(t, "", append(all, "--server", "http://"+p.admin)...)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, w := range unknown {
		before := l.count(w.name)
		got := about(lookup, w)
		if got.code != exitDone { // it never got as far as a record
			if before != 0 {
				t.Errorf("%s was executed, and there is no record: %s", w.name, got.stderr)
			}
			continue
		}
		for deadline := time.Now().Add(ample); strings.Contains(got.stdout, "running") && !strings.Contains(got.stdout, "crashed") && time.Now().Before(deadline); {
			got = about(lookup, w) // the gateway was killed: the claim has to lapse
		}
		if !strings.Contains(got.stdout, "crashed") {
			continue // it was done, and its answer got lost on the way to the client
		}
		if w.send(t, client, p.url()); l.count(w.name) != before {
			t.Errorf("%s was unknown and ran again", w.name)
		}
		command := never
		if before > 0 {
			command = done
		}
		if got := about(command, w); got.code != exitDone {
			t.Errorf("%s: %s%s", w.name, got.stdout, got.stderr)
			continue
		}
		settled++
		w.settled = true
		if w.send(t, client, p.url()); before > 0 && l.count(w.name) != 1 {
			t.Errorf("%s was settled as done and ran %d times", w.name, l.count(w.name))
		} else if before == 0 {
			ran++
		}
	}
	return settled, ran
}

// sendAll makes calls with Send from several goroutines each, and checks that
// each call was executed once at most, and that what may have been is unknown.
func sendAll(t *testing.T, l *ledger, upstream, db string, n int) int {
	t.Helper()
	file, err := sqlite.Open(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	k, err := idempotency.New(idempotency.Config{Store: replaystore.New(file, nil), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	methods, behaviours := []string{"POST", "PUT", "PATCH", "DELETE"}, []string{"ok", "before", "after", "late", "busy"}
	var wg sync.WaitGroup
	line := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range line {
				name, behave := fmt.Sprint("s", i), behaviours[i/4%5]
				for range 2 {
					_, err := idempotency.Send(context.Background(), k, idempotency.Call{
						Tenant: "default/acme", Name: "hook", Key: name, Method: methods[i%4], URL: upstream + "/" + behave,
						Header: http.Header{"X-Write": {name}}, Body: []byte(strings.Repeat("x", i%2)), Timeout: 200 * time.Millisecond,
					})
					if known := behave == "ok"; errors.Is(err, idempotency.ErrOutcomeUnknown) == known {
						t.Errorf("%s %s: %v", name, behave, cmp.Or(err, errors.New("no error")))
					}
				}
				if got := l.count(name); got > 1 {
					t.Errorf("%s %s was executed %d times", name, behave, got)
				}
			}
		})
	}
	for i := range n {
		line <- i
	}
	close(line)
	wg.Wait()
	return n
}
