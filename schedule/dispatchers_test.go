package schedule_test

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/schedule"
)

// dispatch dispatches for a while, and then writes when each start was granted
// and when it was.
func (h *helper) dispatch(ctx context.Context, s *schedule.Scheduler, limiter *sluice.Limiter, out *bufio.Writer) error {
	var mu sync.Mutex
	d, err := s.NewDispatcher(schedule.DispatcherConfig{
		Limiter: limiter, Name: fmt.Sprint("process-", h.Process),
		Work: func(_ context.Context, job *schedule.Job) error {
			now := time.Now().UnixMicro()
			mu.Lock()
			defer mu.Unlock()
			_, err := fmt.Fprintln(out, job.Granted.UnixMicro(), now)
			return err
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(h.Seconds)*time.Second)
	defer cancel()
	return d.Run(ctx)
}

// TestDispatchersInProcesses has three processes dispatch at 50 a second.
func TestDispatchersInProcesses(t *testing.T) {
	const processes = 3
	ctx := t.Context()
	address, _, s := shared(t)
	// All are due soon, and more than can be started in the time.
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
