package advance_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/storetest"
)

// TestBoundAcrossProcesses runs real processes on a real Redis. One is killed
// and replaced, one is stopped past the life of its holds and goes on, and
// what each admitted is checked for intervals over the bound. Their clock and
// the server's are the same, as they are on one machine.
func TestBoundAcrossProcesses(t *testing.T) {
	const length = 16 * time.Second
	server := redistest.Start(t)
	limits := []string{"200/s burst 400", "1000/s", "400/s fixed"}
	dir := t.TempDir()
	start := func(name string, life time.Duration) *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=TestWorkerProcess")
		cmd.Env = append(os.Environ(), "SLUICE_TEST_WORKER="+server.URL(), "SLUICE_TEST_EVENTS="+filepath.Join(dir, name),
			"SLUICE_TEST_LIFE="+life.String(), fmt.Sprintf("SLUICE_TEST_LIMITS=%d", len(limits)))
		for i, l := range limits {
			cmd.Env = append(cmd.Env, fmt.Sprintf("SLUICE_TEST_LIMIT%d=%s", i, l))
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			cmd.Process.Kill() //nolint:errcheck // it is usually gone
			if t.Failed() && stderr.Len() > 0 {
				t.Logf("%s: %s", name, stderr.String())
			}
		})
		return cmd
	}
	begin := time.Now()
	steady, victim, sleeper := start("steady", length), start("victim", length), start("sleeper", length)
	at := func(d time.Duration) { time.Sleep(time.Until(begin.Add(d))) }
	signal := func(cmd *exec.Cmd, s os.Signal) {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	at(2 * time.Second)
	signal(sleeper, syscall.SIGSTOP)
	at(3 * time.Second)
	signal(victim, syscall.SIGKILL)
	at(4 * time.Second)
	heir := start("heir", length-4*time.Second)
	at(14 * time.Second)
	signal(sleeper, syscall.SIGCONT)
	victim.Wait() //nolint:errcheck // it was killed
	for name, cmd := range map[string]*exec.Cmd{"steady": steady, "sleeper": sleeper, "heir": heir} {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	histories := make([]storetest.History, len(limits))
	for _, name := range []string{"steady", "victim", "sleeper", "heir"} {
		n := readEvents(t, filepath.Join(dir, name), histories)
		t.Logf("%s admitted %d", name, n)
	}
	for i, l := range limits {
		report, err := histories[i].Report(sluice.MustParse(l))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d admitted, %.1f %% of the bound; worst: %s", l, len(histories[i].Events), 100*report.Used(), report.Worst)
		if err := report.Err(); err != nil {
			t.Errorf("%s: %v", l, err)
		}
		if report.Used() < 0.8 {
			t.Errorf("%s: only %.1f %% of the bound was admitted", l, 100*report.Used())
		}
	}
}

// readEvents adds a process's events to the histories. A process that was
// killed may have left part of one at the end.
func readEvents(t *testing.T, file string, histories []storetest.History) (n int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	for {
		var e [4]int64
		err := binary.Read(in, binary.LittleEndian, &e)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		histories[e[0]].Add(e[1], e[2], sluice.Tokens(e[3]))
		n++
	}
}

// TestWorkerProcess is what the other processes run; in this one it has
// nothing to do but to check that it is not taken for one.
func TestWorkerProcess(t *testing.T) {
	address := os.Getenv("SLUICE_TEST_WORKER")
	if address == "" {
		if os.Getenv("SLUICE_TEST_EVENTS") != "" {
			t.Error("a worker without a server")
		}
		return
	}
	if err := work(address, os.Getenv("SLUICE_TEST_EVENTS")); err != nil {
		t.Fatal(err)
	}
}

// work asks for far more than there is, and writes down what it got.
func work(address, file string) error {
	life, err := time.ParseDuration(os.Getenv("SLUICE_TEST_LIFE"))
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(os.Getenv("SLUICE_TEST_LIMITS"))
	if err != nil {
		return err
	}
	inner, err := redis.Open(context.Background(), redis.Config{Address: address, Log: quiet, Timeout: 2 * time.Second})
	if err != nil {
		return err
	}
	store, err := advance.New(inner, advance.Config{Log: quiet})
	if err != nil {
		return err
	}
	defer store.Close()
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	l := sluice.New(store)
	end := time.Now().Add(life)
	errs := make(chan error, 100)
	var wg sync.WaitGroup
	for i := range count {
		limit, err := sluice.Parse(os.Getenv(fmt.Sprintf("SLUICE_TEST_LIMIT%d", i)))
		if err != nil {
			return err
		}
		dm := sluice.Demand{Key: sluice.Key{Entity: fmt.Sprint("hot", i)}, Limit: limit}
		for range 4 {
			wg.Go(func() {
				for time.Now().Before(end) {
					call := time.Now().UnixMicro()
					d, err := l.Take(context.Background(), dm)
					ret := time.Now().UnixMicro()
					if err != nil && !errors.Is(err, sluice.ErrUnknown) && !errors.Is(err, sluice.ErrUnavailable) {
						errs <- err
						return
					}
					if err == nil && d.Allowed {
						var b [32]byte
						for j, n := range [...]int64{int64(i), call, ret, int64(d.Granted)} {
							binary.LittleEndian.PutUint64(b[8*j:], uint64(n))
						}
						if _, err := out.Write(b[:]); err != nil { // one write, so that none is torn
							errs <- err
							return
						}
					}
					time.Sleep(2 * time.Millisecond)
				}
			})
		}
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}
