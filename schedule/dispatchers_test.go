package schedule_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres/postgrestest"
	"github.com/sluice-go/sluice/schedule"
)

// dispatch dispatches for a while, and then writes when each start was granted
// and when it was.
func (h *helper) dispatch(ctx context.Context, s *schedule.Scheduler, limiter *sluice.Limiter, out *bufio.Writer) error {
	var mu sync.Mutex
	config := schedule.DispatcherConfig{
		Limiter: limiter, Name: fmt.Sprint("process-", h.Process),
		Work: func(_ context.Context, job *schedule.Job) error {
			now := time.Now().UnixMicro()
			mu.Lock()
			defer mu.Unlock()
			_, err := fmt.Fprintln(out, job.Granted.UnixMicro(), now)
			return err
		},
	}
	if h.Receiver != "" {
		config.Pacing, config.Timeout, config.Life = schedule.ByAnswer, time.Second, 2*time.Second
		config.Work = func(ctx context.Context, _ *schedule.Job) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Receiver, nil)
			if err != nil {
				return err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			return response.Body.Close()
		}
	}
	d, err := s.NewDispatcher(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.Seconds)*time.Second)
	defer cancel()
	return d.Run(ctx)
}

// backlog is the address of a database with events that are all due, more than
// can be started in the time at 50 a second.
func backlog(t *testing.T) (address string) {
	t.Helper()
	ctx := t.Context()
	address, _, s := shared(t)
	if _, err := s.SetPlan(ctx, schedule.Plan{MaxPerWindow: 1_000_000, WindowSize: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	rs := make([]schedule.Request, 1000)
	for i := range (60**seconds + 999) / 1000 {
		for j := range rs {
			rs[j] = schedule.Request{Event: eventName(1000*i + j)}
		}
		if _, err := s.AssignBatch(ctx, rs); err != nil {
			t.Fatal(err)
		}
	}
	return address
}

// TestDispatchersInProcesses has three processes dispatch at 50 a second.
func TestDispatchersInProcesses(t *testing.T) {
	const processes = 3
	address := backlog(t)
	var mu sync.Mutex
	var granted, started []int64
	var group sync.WaitGroup
	for p := range processes {
		cmd, lines := helper{What: "dispatch", Address: address, Process: p, Seconds: *seconds}.start(t)
		group.Go(func() {
			n := 0
			for lines.Scan() {
				var g, s int64
				if _, err := fmt.Sscan(lines.Text(), &g, &s); err != nil {
					t.Errorf("%q: %v", lines.Text(), err)
					return
				}
				n++
				mu.Lock()
				granted, started = append(granted, g), append(started, s)
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
			if n == 0 {
				t.Errorf("process %d started nothing", p)
			}
		})
	}
	group.Wait()
	slices.Sort(granted)
	slices.Sort(started)
	if len(granted) < 2 {
		t.Fatalf("only %d starts", len(granted))
	}
	if most := mostInASecond(granted); most > 50 {
		t.Errorf("%d starts were granted within one second", most)
	}
	// While all three are at work.
	took := float64(granted[len(granted)-1]-granted[0]) / 1e6
	rate := float64(len(granted)-1) / took
	t.Logf("%d starts in %.1f s: %.2f/s, at most %d granted in any half-open second (by the workers' own clocks %d)",
		len(granted), took, rate, mostInASecond(granted), mostInASecond(started))
}

// TestReceiverOfProcesses has three processes send what a receiver delays, and
// one of them killed and replaced. The receiver counts by its own clock.
func TestReceiverOfProcesses(t *testing.T) {
	address := backlog(t)
	var mu sync.Mutex
	var received []int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		time.Sleep(rand.N(200 * time.Millisecond)) // on the way
		mu.Lock()
		defer mu.Unlock()
		received = append(received, time.Now().UnixMicro())
	}))
	defer server.Close()
	var group sync.WaitGroup
	var first *exec.Cmd
	for p := range 4 {
		h := helper{What: "dispatch", Address: address, Process: p, Seconds: *seconds, Receiver: server.URL}
		cmd, lines := h.start(t)
		if p == 0 {
			first = cmd
		}
		group.Go(func() {
			for lines.Scan() {
			}
			if err := cmd.Wait(); err != nil && p != 0 {
				t.Error(err)
			}
		})
		if p == 2 {
			postgrestest.Eventually(t, "requests", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(received) > 60
			})
			if err := first.Process.Kill(); err != nil { // the fourth takes its place
				t.Fatal(err)
			}
		}
	}
	group.Wait()
	slices.Sort(received)
	if most := mostInASecond(received); most > 50 {
		t.Errorf("%d were received within one second", most)
	}
	t.Logf("%d were received, at most %d in any half-open second", len(received), mostInASecond(received))
}

// mostInASecond is the most that lie in [t, t+1s) for any t. The times are
// sorted.
func mostInASecond(times []int64) int {
	most, from := 0, 0
	for i, t := range times {
		for times[from] <= t-1_000_000 {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}
