package schedule_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice/schedule"
)

const (
	writerProcesses   = 4
	writersPerProcess = 4
)

// instant is what all events are aimed at: the beginning of a window.
var instant = time.Now().Add(time.Hour).Truncate(4 * time.Second)

// write assigns the events of one process, with several writers, and writes a
// line for each that is acknowledged. The first half goes in batches, the rest
// one by one.
func (h *helper) write(ctx context.Context, s *schedule.Scheduler, out *bufio.Writer) error {
	at, err := s.Slot(ctx, "mark") // tells the instant
	if err != nil {
		return err
	}
	var mu sync.Mutex
	done := func(results ...schedule.Slot) error {
		mu.Lock()
		defer mu.Unlock()
		for _, slot := range results {
			fmt.Fprintln(out, slot.Event)
		}
		return out.Flush()
	}
	errs := make([]error, writersPerProcess)
	var group sync.WaitGroup
	for w := range writersPerProcess {
		group.Go(func() {
			writer := h.Process*writersPerProcess + w
			var mine []schedule.Request
			for i := writer; i < h.Events; i += writerProcesses * writersPerProcess {
				mine = append(mine, schedule.Request{Event: eventName(i), At: at.Requested})
			}
			single := len(mine) / 10
			for len(mine) > single {
				n := min(h.Batch, len(mine)-single)
				results, err := s.AssignBatch(ctx, mine[:n])
				if err != nil {
					errs[w] = err
					return
				}
				slots := make([]schedule.Slot, n)
				for i, r := range results {
					if r.Err != nil {
						errs[w] = r.Err
						return
					}
					slots[i] = r.Slot
				}
				if errs[w] = done(slots...); errs[w] != nil {
					return
				}
				mine = mine[n:]
			}
			for i := range mine {
				slot, err := s.Assign(ctx, mine[i])
				if err != nil {
					errs[w] = err
					return
				}
				if errs[w] = done(slot); errs[w] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func eventName(i int) string { return fmt.Sprintf("event-%07d", i) }

// TestKilledWriter aims many events at one instant from 16 writers in four
// processes, and kills one process in the middle of it. What it has not done,
// another does, without knowing where it stopped.
func TestKilledWriter(t *testing.T) {
	ctx := t.Context()
	address, _, s := shared(t)
	if _, err := s.SetPlan(ctx, schedule.Plan{Headroom: 100_000}); err != nil {
		t.Fatal(err)
	}
	// One event in a window of its own carries the instant to the others.
	if _, err := s.Assign(ctx, schedule.Request{Event: "mark", At: instant}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var acknowledged atomic.Int64
	killed := make(chan struct{})
	var group sync.WaitGroup
	var victim *exec.Cmd
	for p := range writerProcesses {
		cmd, lines := helper{What: "write", Address: address, Process: p, Batch: 100, Events: *events}.start(t)
		if p == 0 {
			victim = cmd
		}
		group.Go(func() {
			mine := 0
			for lines.Scan() {
				acknowledged.Add(1)
				if mine++; p == 0 && mine == *events/writerProcesses/2 {
					if err := cmd.Process.Kill(); err != nil {
						t.Error(err)
					}
					close(killed)
				}
			}
			if err := cmd.Wait(); err != nil && p != 0 {
				t.Errorf("process %d: %v", p, err)
			}
		})
	}
	group.Wait()
	<-killed
	if victim.ProcessState.Success() {
		t.Error("the victim was not killed")
	}
	atKill := acknowledged.Load()
	cmd, lines := helper{What: "write", Address: address, Process: 0, Batch: 100, Events: *events}.start(t)
	for lines.Scan() {
		acknowledged.Add(1)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("%d events in %s, %d acknowledged before the victim's work was done again", *events, took.Round(time.Millisecond), atKill)
	check(t, address, *events+1)
}

// check reads the tables: every event once, no window over its maximum, the
// counters right, and moments uniform within windows.
func check(t *testing.T, address string, want int) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // it was only for a look
	number := func(sql string) (n int) {
		t.Helper()
		if err := conn.QueryRow(ctx, sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := number("SELECT count(DISTINCT event) FROM sluice.slot"); n != want {
		t.Errorf("%d events have slots, want %d", n, want)
	}
	if n := number("SELECT count(*) FROM sluice.slot"); n != want {
		t.Errorf("there are %d slots, want %d", n, want)
	}
	if n := number("SELECT max(used) FROM sluice.slot_window"); n > 100 {
		t.Errorf("a window has %d events, at most 100 fit", n)
	}
	if n := number(`SELECT count(*) FROM sluice.slot_window w
		LEFT JOIN (SELECT plan, win, count(*) AS n FROM sluice.slot GROUP BY plan, win) s ON s.plan = w.plan AND s.win = w.start
		WHERE w.used <> coalesce(s.n, 0)`); n != 0 {
		t.Errorf("%d windows count wrongly", n)
	}
	if n := number(`SELECT count(*) FROM sluice.slot s LEFT JOIN sluice.slot_window w ON w.plan = s.plan AND w.start = s.win
		WHERE w.start IS NULL OR s.at < w.start OR s.at >= w.start + w.size OR s.at < s.requested`); n != 0 {
		t.Errorf("%d slots are outside their windows, or too early", n)
	}
	windows := number("SELECT count(*) FROM sluice.slot_window WHERE used > 0")
	if least := (want + 99) / 100; windows > least+2*writerProcesses*writersPerProcess+2 {
		t.Errorf("%d windows are used, %d would do", windows, least)
	}

	// Chi-square over 40 parts of the window, 39 degrees of freedom.
	const parts = 40
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT (at - win) * %d / 4000000, count(*) FROM sluice.slot GROUP BY 1", parts))
	if err != nil {
		t.Fatal(err)
	}
	chi := 0.0
	var part, n int
	seen := 0
	expected := float64(want) / parts
	if _, err := pgx.ForEachRow(rows, []any{&part, &n}, func() error {
		seen++
		chi += (float64(n) - expected) * (float64(n) - expected) / expected
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	chi += float64(parts-seen) * expected
	// Above this in one of a million runs (Wilson and Hilferty).
	const freedom = parts - 1
	limit := freedom * math.Pow(1-2.0/(9*freedom)+4.75*math.Sqrt(2.0/(9*freedom)), 3)
	t.Logf("%d windows used; jitter: chi-square %.1f with %d degrees of freedom (below %.1f is uniform)", windows, chi, freedom, limit)
	if chi > limit {
		t.Errorf("the moments are not uniform: chi-square %.1f", chi)
	}
}
