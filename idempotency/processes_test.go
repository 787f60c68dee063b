package idempotency_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	pgreplays "github.com/sluice-go/sluice/postgres/replaystore"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
	redisreplays "github.com/sluice-go/sluice/redis/replaystore"
	"github.com/sluice-go/sluice/sqlite"
	sqlitereplays "github.com/sluice-go/sluice/sqlite/replaystore"
)

// Tests over several processes start this test binary again with
// workerVariable, which says what it is to do.
const workerVariable = "SLUICE_IDEMPOTENCY_WORKER"

type workerConfig struct {
	Store, Address string
	OnCrash        idempotency.OnCrash
	Life           time.Duration
	Entries        string // a file: a line for each time the handler is entered
	Gate           string // a file: the handler goes on when it is there
}

func openStore(ctx context.Context, kind, address string) (idempotency.Store, error) {
	switch kind {
	case "sqlite":
		db, err := sqlite.Open(ctx, address)
		if err != nil {
			return nil, err
		}
		return sqlitereplays.New(db, nil), nil
	case "redis":
		return redisreplays.Open(ctx, redis.Config{Address: address, Timeout: 10 * time.Second, Log: quiet})
	case "postgres":
		return pgreplays.Open(ctx, postgres.Config{Address: address, Timeout: 10 * time.Second, Log: quiet})
	}
	return nil, fmt.Errorf("store %q", kind)
}

func (c *workerConfig) handler() (http.Handler, error) {
	store, err := openStore(context.Background(), c.Store, c.Address)
	if err != nil {
		return nil, err
	}
	k, err := idempotency.New(idempotency.Config{Store: store, Log: quiet})
	if err != nil {
		return nil, err
	}
	route := &idempotency.Route{
		Name: "/orders", Tenant: func(*http.Request) string { return "" }, Life: c.Life,
		OnCrash: c.OnCrash, OnUnavailable: idempotency.Refuse,
	}
	if err := route.Prepare(); err != nil {
		return nil, err
	}
	return k.Handler(always(route), http.HandlerFunc(c.enter)), nil
}

// enter notes that it was entered and waits at the gate.
func (c *workerConfig) enter(w http.ResponseWriter, _ *http.Request) {
	f, err := os.OpenFile(c.Entries, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for {
		if _, err := os.Stat(c.Gate); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond) // for another process
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, "made by ", os.Getpid())
}

// work is what a worker does: it serves, and says where.
func work(text string) {
	var c workerConfig
	err := json.Unmarshal([]byte(text), &c)
	var h http.Handler
	if err == nil {
		h, err = c.handler()
	}
	var l net.Listener
	if err == nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err == nil {
		fmt.Println("http://" + l.Addr().String())
		err = http.Serve(l, h)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// startWorker starts one and answers its process number and address.
func startWorker(t *testing.T, c workerConfig) (pid int, url string) {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may be dead already
		cmd.Wait()         //nolint:errcheck // killed
	})
	says := bufio.NewScanner(out)
	if !says.Scan() {
		t.Fatal("the worker says nothing")
	}
	return cmd.Process.Pid, says.Text()
}

const clients = 200

// tally is what clients got: final answers by what they are, and how many were
// told to wait on their first attempt.
type tally struct {
	mu       sync.Mutex
	answers  map[string]int
	firsts   atomic.Int64 // runs, not replays
	waited   atomic.Int64
	finished sync.WaitGroup
}

// flood sends one key from many clients at once to all urls, each until it
// gets a final answer.
func flood(t *testing.T, urls []string) *tally {
	t.Helper()
	all := &tally{answers: make(map[string]int)}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	t.Cleanup(client.CloseIdleConnections)
	for i := range clients {
		all.finished.Go(func() {
			waited := false
			for try := i; ; try++ {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, urls[try%len(urls)], strings.NewReader("one order"))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Idempotency-Key", "the-key")
				resp, err := client.Do(r)
				if err != nil {
					if t.Context().Err() != nil {
						return
					}
					time.Sleep(20 * time.Millisecond) // its process is dead: ask the next
					continue
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close() //nolint:errcheck // read
				if err != nil {
					continue
				}
				if strings.Contains(string(body), idempotency.CodeRunning) {
					if !waited {
						waited = true
						all.waited.Add(1)
					}
					time.Sleep(300 * time.Millisecond)
					continue
				}
				if resp.StatusCode == http.StatusServiceUnavailable { // nothing was done: the machine is busy
					time.Sleep(300 * time.Millisecond)
					continue
				}
				if resp.StatusCode == http.StatusCreated && resp.Header.Get("Idempotent-Replay") == "" {
					all.firsts.Add(1)
				}
				answer := fmt.Sprint(resp.StatusCode, " ", string(body))
				if strings.Contains(string(body), idempotency.CodeUnknown) {
					answer = idempotency.CodeUnknown
				}
				all.mu.Lock()
				all.answers[answer]++
				all.mu.Unlock()
				return
			}
		})
	}
	return all
}

func (a *tally) want(t *testing.T, what func(answer string) bool) {
	t.Helper()
	a.finished.Wait()
	if len(a.answers) != 1 {
		t.Errorf("clients got different answers: %v", a.answers)
	}
	for answer, n := range a.answers {
		if n != clients || !what(answer) {
			t.Errorf("%d clients got %s", n, answer)
		}
	}
}

// entries are the processes that entered the handler.
func entries(t *testing.T, file string) (pids []int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func openGate(t *testing.T, c *workerConfig) {
	t.Helper()
	if err := os.WriteFile(c.Gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func eachSharedStore(t *testing.T, run func(t *testing.T, c workerConfig)) {
	server := redistest.Start(t)
	for kind, address := range map[string]string{
		"sqlite":   filepath.Join(t.TempDir(), "sluice.db"),
		"redis":    server.URL(),
		"postgres": postgrestest.Database(t),
	} {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			run(t, workerConfig{
				Store: kind, Address: address, Life: 30 * time.Second,
				Entries: filepath.Join(dir, "entries"), Gate: filepath.Join(dir, "gate"),
			})
		})
	}
}

func startWorkers(t *testing.T, c workerConfig) (urls []string) {
	t.Helper()
	for range 4 {
		_, url := startWorker(t, c)
		urls = append(urls, url)
	}
	return urls
}

func created(answer string) bool { return strings.HasPrefix(answer, "201 made by ") }

func TestOneExecutionOverFourProcesses(t *testing.T) {
	eachSharedStore(t, func(t *testing.T, c workerConfig) {
		all := flood(t, startWorkers(t, c))
		eventually(t, "all others are told to wait", func() bool { return all.waited.Load() == clients-1 })
		openGate(t, &c)
		all.want(t, created)
		if n := len(entries(t, c.Entries)); n != 1 {
			t.Errorf("the handler was entered %d times", n)
		}
		if n := all.firsts.Load(); n != 1 {
			t.Errorf("%d responses were not replays, want 1", n)
		}
	})
}

func TestOneExecutionInOneProcess(t *testing.T) {
	dir := t.TempDir()
	c := workerConfig{Entries: filepath.Join(dir, "entries"), Gate: filepath.Join(dir, "gate")}
	h := memoryKeeper(t).Handler(always(prepared(t, nil)), http.HandlerFunc(c.enter))
	s := httptest.NewServer(h)
	defer s.Close()
	all := flood(t, []string{s.URL})
	eventually(t, "all others are told to wait", func() bool { return all.waited.Load() == clients-1 })
	openGate(t, &c)
	all.want(t, created)
	if n := len(entries(t, c.Entries)); n != 1 || all.firsts.Load() != 1 {
		t.Errorf("the handler was entered %d times, %d responses were not replays", n, all.firsts.Load())
	}
}

// killFirst floods, kills the process that has entered the handler, and opens
// the gate for whoever comes after it.
func killFirst(t *testing.T, c *workerConfig) (all *tally, urls []string) {
	t.Helper()
	urls = startWorkers(t, *c)
	all = flood(t, urls)
	var first []int
	eventually(t, "a process enters the handler", func() bool {
		first = entries(t, c.Entries)
		return len(first) > 0
	})
	if err := syscall.Kill(first[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	openGate(t, c)
	return all, urls
}

func TestKilledInTheHandlerAndRunAgain(t *testing.T) {
	eachSharedStore(t, func(t *testing.T, c workerConfig) {
		c.Life = 2 * time.Second
		all, _ := killFirst(t, &c)
		all.want(t, created)
		pids := entries(t, c.Entries)
		if len(pids) != 2 || all.firsts.Load() != 1 {
			t.Fatalf("the handler was entered %d times, want 2; %d responses were not replays, want 1", len(pids), all.firsts.Load())
		}
		if _, ok := all.answers[fmt.Sprint("201 made by ", pids[1])]; !ok {
			t.Errorf("the result is not the second run's: %v", all.answers)
		}
	})
}

func TestKilledInTheHandlerAndOutcomeUnknown(t *testing.T) {
	eachSharedStore(t, func(t *testing.T, c workerConfig) {
		c.Life, c.OnCrash = 2*time.Second, idempotency.OutcomeUnknown
		all, _ := killFirst(t, &c)
		all.want(t, func(answer string) bool { return answer == idempotency.CodeUnknown })
		if n := len(entries(t, c.Entries)); n != 1 {
			t.Errorf("the handler was entered %d times", n)
		}
		// Somebody looks what became of it.
		store, err := openStore(t.Context(), c.Store, c.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		k := keeperOn(t, store)
		s := scope("the-key")
		if record, _, err := k.Lookup(t.Context(), s); err != nil || !record.Crashed || record.Attempts != 1 {
			t.Errorf("record %+v, %v", record, err)
		}
		if err := k.Settle(t.Context(), s, &idempotency.Response{Status: 201, Body: []byte("made by the dead")}); err != nil {
			t.Fatal(err)
		}
		_, url := startWorker(t, c)
		flood(t, []string{url}).want(t, func(answer string) bool { return answer == "201 made by the dead" })
		if n := len(entries(t, c.Entries)); n != 1 {
			t.Errorf("the handler was entered %d times", n)
		}
	})
}
