package failover_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
)

// The bounds stated in docs/failover.md, with the default settings.
const (
	backAfter        = 64 * time.Second // from the end of a fault to the normal state
	backAfterManyBad = 94 * time.Second // if calls failed during the recovery
)

// breakBy makes the store fail in one way until the breaker is open.
func breakBy(t *testing.T, l *sluice.Limiter, s *failover.Store, f *faulty, how fault) {
	t.Helper()
	f.set(how)
	for range 3 {
		decide(t, l, "", demand("a"))
	}
	wantState(t, s, failover.Open)
}

func TestRecoveryNeedsNoCallers(t *testing.T) {
	for name, fault := range map[string]fault{"refuses": refuses, "hangs": hangs, "deaf": deaf, "cuts": cuts, "babbles": babbles} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s, f := open(t, failover.Config{})
				f.checked = true
				breakBy(t, l, s, f, fault)
				for range 10 { // the back-off of callers grows to its longest
					time.Sleep(s.Stats().NextProbe)
					decide(t, l, "", demand("a"))
				}
				time.Sleep(11 * time.Millisecond) // between two checks
				wantState(t, s, failover.Open)
				f.set(none)
				time.Sleep(time.Minute) // less than all phases
				wantState(t, s, failover.Stabilizing)
				time.Sleep(backAfter - time.Minute)
				wantState(t, s, failover.Normal)
				if d := decide(t, l, "", demand("a")); d.Source != sluice.FromStore {
					t.Errorf("source %s", d.Source)
				}
			})
		})
	}
}

// Failures while many callers are there must not delay the recovery until as
// many successes have made up for them, if the callers have left.
func TestFailuresOfManyDoNotDelayRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		f.checked = true
		closeBreaker(t, l, s, f)
		for range 10_000 { // never three in a row
			f.set(cuts)
			decide(t, l, "", critical("a"))
			f.set(none)
			succeed(t, l, 1)
		}
		time.Sleep(backAfterManyBad)
		wantState(t, s, failover.Normal)
	})
}

func TestHealthChecksComeOnlyWhileTheyAreNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		f.checked = true
		time.Sleep(time.Minute)
		if n := f.checks.Load(); n != 0 {
			t.Errorf("%d health checks in the normal state", n)
		}
		breakBy(t, l, s, f, refuses)
		time.Sleep(10*time.Second + time.Millisecond)
		if n := f.checks.Load(); n != 20 {
			t.Errorf("%d health checks in 10 s, want 20", n)
		}
		f.set(none)
		time.Sleep(backAfter)
		wantState(t, s, failover.Normal)
		calls := f.calls.Load()
		time.Sleep(time.Minute)
		if n := f.calls.Load() - calls; n != 0 {
			t.Errorf("%d health checks after the recovery", n)
		}
		breakBy(t, l, s, f, refuses) // and they come again
		f.set(none)
		time.Sleep(backAfter)
		wantState(t, s, failover.Normal)
	})
}

func TestHealthChecksThatFailChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l, s, f := open(t, failover.Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
		f.checked = true
		breakBy(t, l, s, f, cuts)
		next := time.Now().Add(s.Stats().NextProbe)
		time.Sleep(4*time.Second + time.Millisecond)
		if left := s.Stats().NextProbe; !time.Now().Add(left).Equal(next) {
			t.Errorf("callers may try again in %s, which is not when they might before", left)
		}
		if lines := strings.Count(out.String(), "\n"); lines != 1 {
			t.Errorf("%d lines for one change of state:\n%s", lines, out.String())
		}
		if st := s.Stats(); st.Lost != 3+8 {
			t.Errorf("%d failures counted, want 3 of callers and 8 of the health check", st.Lost)
		}
	})
}

func TestAHealthCheckThatFailsReopensAHalfOpenBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		f.checked = true
		breakBy(t, l, s, f, cuts)
		f.set(none)
		time.Sleep(failover.CheckEvery + time.Millisecond)
		wantState(t, s, failover.HalfOpen)
		f.set(cuts)
		time.Sleep(failover.CheckEvery)
		wantState(t, s, failover.Open)
	})
}

func TestOneSuccessIsEnoughIfConfigured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{Successes: 1})
		f.checked = true
		breakBy(t, l, s, f, cuts)
		time.Sleep(5 * time.Second)
		f.set(none)
		time.Sleep(failover.CheckEvery + time.Millisecond)
		wantState(t, s, failover.Testing)
	})
}

func TestCloseEndsTheHealthChecks(t *testing.T) {
	for _, fault := range []fault{refuses, hangs} {
		synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left
			l, s, f := open(t, failover.Config{Timeout: time.Hour, Backoff: time.Hour})
			f.checked = true
			breakBy(t, l, s, f, refuses)
			f.set(fault)
			time.Sleep(failover.CheckEvery + time.Millisecond) // one is out if it hangs
			start := time.Now()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took != 0 {
				t.Errorf("closing took %s", took)
			}
		})
	}
}

// A store that can only read must not pass for one that works.
func TestTheHealthCheckWritesAndLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		f.checked = true
		f.hooks = func(take *sluice.Take) {
			if isCheck(take) && take.Peek {
				t.Error("the health check only looks")
			}
		}
		breakBy(t, l, s, f, refuses)
		f.set(none)
		time.Sleep(10*time.Second + time.Millisecond)
		page, err := l.List(t.Context(), sluice.Query{})
		if err != nil || len(page.Buckets) != 0 {
			t.Errorf("%d buckets after health checks, %v", len(page.Buckets), err)
		}
		if f.checks.Load() == 0 {
			t.Error("no health check came")
		}
	})
}

func TestChangesOfStateWakeThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		f.checked = true
		var mu sync.Mutex // the health check wakes, and so do callers
		var woken []failover.State
		s.Watch(func(k sluice.Key) {
			mu.Lock()
			defer mu.Unlock()
			if k != sluice.AnyKey {
				t.Errorf("woke %s, want any key", k)
			}
			woken = append(woken, s.State())
		})
		breakBy(t, l, s, f, refuses)
		time.Sleep(5 * time.Second)
		f.set(none)
		time.Sleep(backAfter)
		mu.Lock()
		defer mu.Unlock()
		// The store does so, too, as it begins to listen.
		if len(woken) != 1+6 || woken[6] != failover.Normal {
			t.Errorf("woken in %v, want at the beginning and at each of 6 changes", woken)
		}
	})
}

func TestTicketsAreNotReturnedToAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		time.Sleep(2 * s.Stats().NextProbe) // the next call would be let through
		f.set(hangs)
		start, calls := time.Now(), f.calls.Load()
		dm := demand("a")
		err := s.Return(t.Context(), []sluice.HoldReturn{{Key: dm.Key, Limit: dm.Limit, ID: sluice.HoldID{Node: 1, Seq: 1}}})
		if took := time.Since(start); err == nil || took != 0 || f.calls.Load() != calls {
			t.Errorf("%v after %s", err, took)
		}
	})
}

func TestTicketsPassThroughToTheStoreOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		want := sluice.Ticket{ID: sluice.HoldID{Node: 1, Seq: 2}, Rank: time.Second}
		seen := 0
		f.hooks = func(take *sluice.Take) {
			if take.Ticket == want {
				seen++
			}
		}
		dm := demand("a")
		dm.Limit = sluice.MustParse("1/h")
		var d sluice.Decision
		ask := func() {
			t.Helper()
			if err := s.Take(t.Context(), &sluice.Take{Demands: []sluice.Demand{dm}, Ticket: want}, &d); err != nil {
				t.Fatal(err)
			}
		}
		ask()
		if seen != 1 {
			t.Error("the store did not see the ticket")
		}
		breakOpen(t, l, s, f)
		for range 2 {
			ask() // of 2.5
		}
		time.Sleep(10 * time.Second)
		if ask(); d.Allowed {
			t.Fatalf("%+v", d)
		}
		time.Sleep(2 * time.Second) // the next token; a ticket would be before it
		if d := decide(t, l, "", dm); !d.Allowed || d.Source != sluice.Degraded {
			t.Errorf("a local quota knows tickets: %+v", d)
		}
	})
}
