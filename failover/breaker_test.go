package failover_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
)

func TestThreeFailuresInARowOpenTheBreaker(t *testing.T) {
	for name, fault := range map[string]fault{"refuses": refuses, "hangs": hangs, "deaf": deaf, "cuts": cuts, "babbles": babbles} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, s, f := open(t, failover.Config{})
				for range 5 { // never three in a row
					f.set(fault)
					decide(t, l, "", demand("a"))
					decide(t, l, "", demand("a"))
					f.set(none)
					decide(t, l, "", demand("a"))
				}
				wantState(t, s, failover.Normal)
				f.set(fault)
				for i := range 3 {
					wantState(t, s, failover.Normal)
					if d := decide(t, l, "enterprise", demand("b")); d.Source == sluice.FromStore {
						t.Fatalf("failure %d was answered by the store", i)
					}
				}
				wantState(t, s, failover.Open)
				calls := f.calls.Load()
				start := time.Now()
				if d := decide(t, l, "enterprise", demand("b")); d.Source != sluice.Degraded {
					t.Errorf("with an open breaker: source %s, want degraded", d.Source)
				}
				if f.calls.Load() != calls || time.Since(start) != 0 {
					t.Errorf("an open breaker asked the store, or waited %s", time.Since(start))
				}
			})
		})
	}
}

func TestSourceTellsWhetherTheStoreMayHaveCounted(t *testing.T) {
	for fault, want := range map[fault]sluice.Source{
		refuses: sluice.Degraded, babbles: sluice.Degraded,
		hangs: sluice.Unknown, deaf: sluice.Unknown, cuts: sluice.Unknown,
	} {
		synctest.Test(t, func(t *testing.T) {
			l, s, f := open(t, failover.Config{})
			f.set(fault)
			start := time.Now()
			if d := decide(t, l, "", demand("a")); d.Source != want || !d.Allowed {
				t.Errorf("fault %d: allowed %t from %s, want true from %s", fault, d.Allowed, d.Source, want)
			}
			took := time.Since(start)
			if waits := fault == hangs || fault == deaf; waits && took != 250*time.Millisecond || !waits && took != 0 {
				t.Errorf("fault %d: the answer took %s", fault, took)
			}
			if st := s.Stats(); st.TimedOut+st.Lost+st.Unreachable+st.Faulty != 1 || (st.Unknown == 1) != (want == sluice.Unknown) {
				t.Errorf("fault %d: stats %+v", fault, st)
			}
			if d, err := l.Peek(t.Context(), demand("a")); err != nil || d.Source != sluice.Degraded {
				t.Errorf("fault %d: a peek, which counts nothing, is from %s: %v", fault, d.Source, err)
			}
		})
	}
}

func TestUnknownTakesAreSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, f := open(t, failover.Config{Failures: 1000})
		sent := map[string]int{}
		var mu sync.Mutex
		f.hooks = func(t *sluice.Take) {
			mu.Lock()
			defer mu.Unlock()
			sent[t.Demands[0].Key.Entity]++
		}
		for i, fault := range []fault{hangs, deaf, cuts} {
			f.set(fault)
			var callers sync.WaitGroup
			for n := range 50 {
				callers.Go(func() {
					if d := decide(t, l, "", demand(fmt.Sprint(i, "-", n))); d.Source != sluice.Unknown {
						t.Errorf("source %s, want unknown", d.Source)
					}
				})
			}
			callers.Wait()
		}
		if len(sent) != 150 {
			t.Errorf("%d takes arrived, want 150", len(sent))
		}
		for entity, n := range sent {
			if n != 1 {
				t.Errorf("the take of %s was sent %d times", entity, n)
			}
		}
	})
}

func TestBackoffDoublesAndIsJittered(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			l, s, f := open(t, failover.Config{})
			breakOpen(t, l, s, f)
			for _, seconds := range []time.Duration{5, 10, 20, 40, 60, 60, 60} {
				wait := s.Stats().NextProbe
				if least := seconds * time.Second; wait < least || wait > least*11/10 {
					t.Fatalf("back-off of %s, want %s to a tenth more", wait, least)
				}
				seen[wait] = true
				calls := f.calls.Load()
				time.Sleep(wait - time.Nanosecond)
				decide(t, l, "", demand("a"))
				if f.calls.Load() != calls {
					t.Fatal("the store was asked before the back-off was over")
				}
				time.Sleep(time.Nanosecond)
				decide(t, l, "", demand("a")) // the probe, which fails
				if f.calls.Load() != calls+1 {
					t.Fatal("no probe after the back-off")
				}
				wantState(t, s, failover.Open)
			}
			f.set(none)
			time.Sleep(66 * time.Second)
			for range 3 {
				decide(t, l, "", demand("a"))
			}
			wantState(t, s, failover.Testing)
			breakOpen(t, l, s, f) // starts anew
			if wait := s.Stats().NextProbe; wait < 5*time.Second || wait > 5500*time.Millisecond {
				t.Errorf("after it was closed: back-off of %s, want 5 s to 5.5 s", wait)
			}
		})
	}
	if len(seen) < 30 {
		t.Errorf("only %d different waits in 35: no jitter", len(seen))
	}
}

func TestHalfOpenLetsOneCallThroughAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		time.Sleep(s.Stats().NextProbe)
		f.set(hangs)
		calls := f.calls.Load()
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() { decide(t, l, "", demand(fmt.Sprint(i))) })
		}
		synctest.Wait()
		wantState(t, s, failover.HalfOpen)
		if n := f.calls.Load() - calls; n != 1 {
			t.Errorf("%d probes at once, want 1", n)
		}
		callers.Wait()
		wantState(t, s, failover.Open)
		if wait := s.Stats().NextProbe; wait < 10*time.Second-250*time.Millisecond {
			t.Errorf("after a failed probe: back-off of %s, want 10 s", wait)
		}

		f.set(none)
		time.Sleep(s.Stats().NextProbe)
		for range 2 {
			if d := decide(t, l, "", demand("a")); d.Source != sluice.FromStore {
				t.Errorf("a probe's caller got an answer from %s", d.Source)
			}
			wantState(t, s, failover.HalfOpen)
		}
		decide(t, l, "", demand("a"))
		wantState(t, s, failover.Testing)
	})
}

// panics is a store with a bug.
type panics struct {
	*faulty
	now bool
}

func (p *panics) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if !isCheck(t) && p.now {
		panic("a bug")
	}
	return p.faulty.Take(ctx, t, d)
}

func TestAProbeThatNeverReportsDoesNotBlockTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, f := open(t, failover.Config{})
		p := &panics{faulty: f}
		s, err := failover.New(p, failover.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		l := sluice.New(s)
		breakOpen(t, l, s, f)
		time.Sleep(s.Stats().NextProbe)
		p.now = true
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			decide(t, l, "", demand("a"))
		}()
		p.now = false
		f.set(none)
		if d := decide(t, l, "", demand("a")); d.Source != sluice.Degraded {
			t.Errorf("source %s while a probe may be out", d.Source)
		}
		time.Sleep(500 * time.Millisecond)
		if d := decide(t, l, "", demand("a")); d.Source != sluice.FromStore {
			t.Errorf("source %s, want another probe", d.Source)
		}
	})
}

func TestAProbeWhoseCallerGivesUpSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		breakOpen(t, l, s, f)
		time.Sleep(s.Stats().NextProbe)
		f.set(hangs)
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := l.Take(ctx, demand("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the caller's own", err)
		}
		wantState(t, s, failover.HalfOpen)
		f.set(none)
		if d := decide(t, l, "", demand("a")); d.Source != sluice.FromStore {
			t.Errorf("source %s, want the next probe at once", d.Source)
		}
	})
}

func TestResultsFromBeforeAnOpeningDoNotCountAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{Timeout: time.Minute})
		f.set(hangs)
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() { decide(t, l, "", demand("slow")) })
		}
		synctest.Wait()
		breakOpen(t, l, s, f)
		time.Sleep(s.Stats().NextProbe)
		f.set(none)
		for range 3 {
			decide(t, l, "", demand("a"))
		}
		wantState(t, s, failover.Testing)
		callers.Wait() // a minute, and then ten failures at once
		wantState(t, s, failover.Testing)
		if st := s.Stats(); st.TimedOut != 10 || st.Entered[failover.Open] != 1 {
			t.Errorf("stats %+v, want 10 time-outs counted and one opening", st)
		}
	})
}

func TestMistakesAreNotFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		ctx := context.Background()
		gone, cancel := context.WithCancel(ctx)
		cancel()
		wrong := demand("a")
		wrong.Limit.Amount = sluice.Thousandths(-1)
		var d sluice.Decision
		if err := l.Decide(ctx, &sluice.Take{ID: "once", Demands: []sluice.Demand{demand("a")}}, &d); err != nil {
			t.Fatal(err)
		}
		var field *sluice.FieldError
		for range 10 {
			if _, err := l.Take(ctx, wrong); !errors.As(err, &field) {
				t.Fatalf("an invalid limit: %v", err)
			}
			if _, err := l.Take(gone, demand("a")); !errors.Is(err, context.Canceled) {
				t.Fatalf("a cancelled context: %v", err)
			}
			if _, err := l.Lease("nobody's").Commit(ctx); !errors.Is(err, sluice.ErrLeaseClosed) {
				t.Fatalf("a lease that never was: %v", err)
			}
			if err := l.Decide(ctx, &sluice.Take{ID: "once", Demands: []sluice.Demand{demand("b")}}, &d); !errors.Is(err, sluice.ErrRequestMismatch) {
				t.Fatalf("an id used for another take: %v", err)
			}
			if _, err := l.List(ctx, sluice.Query{Cursor: "nonsense"}); !errors.As(err, &field) {
				t.Fatalf("a cursor that is none: %v", err)
			}
		}
		wantState(t, s, failover.Normal)

		// Callers that give up say nothing about a store that hangs.
		f.set(hangs)
		for range 10 {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(200*time.Millisecond, cancel)
			if _, err := l.Take(ctx, demand("a")); !errors.Is(err, context.Canceled) {
				t.Fatalf("a caller that gave up: %v", err)
			}
		}
		// Nor do those that give it no time.
		for range 10 {
			ctx, cancel := context.WithTimeout(ctx, 24*time.Millisecond)
			if _, err := l.Take(ctx, demand("a")); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a caller in a hurry: %v", err)
			}
			cancel()
		}
		wantState(t, s, failover.Normal)
		if st := s.Stats(); st.TimedOut+st.Lost+st.Unreachable+st.Faulty != 0 {
			t.Errorf("stats %+v, want no failures", st)
		}
		// But a store that hangs opens the breaker, even if every caller's
		// deadline is earlier than the time-out.
		for range 3 {
			ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			if _, err := l.Take(ctx, demand("a")); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("a caller with a deadline: %v", err)
			}
			cancel()
		}
		wantState(t, s, failover.Open)
	})
}

func TestEachChangeOfStateIsOneLineAndOneCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		l, s, f := open(t, failover.Config{Log: log})
		breakOpen(t, l, s, f)
		time.Sleep(s.Stats().NextProbe)
		f.set(none)
		for range 200 {
			decide(t, l, "", critical("a"))
			time.Sleep(time.Second / 2)
		}
		wantState(t, s, failover.Normal)
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		want := []failover.State{failover.Open, failover.HalfOpen, failover.Testing, failover.Partial, failover.Stabilizing, failover.Normal}
		if len(lines) != len(want) {
			t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), out.String())
		}
		st := s.Stats()
		before := failover.Normal
		for i, to := range want {
			if !strings.Contains(lines[i], fmt.Sprintf("from=%s to=%s ", before, to)) {
				t.Errorf("line %d is %q, want from %s to %s", i, lines[i], before, to)
			}
			if st.Entered[to] != 1 {
				t.Errorf("%s was counted %d times", to, st.Entered[to])
			}
			before = to
		}
		if !strings.Contains(lines[0], "level=ERROR") || !strings.Contains(lines[0], "connection refused") || !strings.Contains(lines[0], "failures=3") {
			t.Errorf("the first line does not say why: %s", lines[0])
		}
		if st.Recoveries != 1 || st.Spent[failover.Testing] < 10*time.Second || st.Spent[failover.Stabilizing] < 30*time.Second {
			t.Errorf("stats %+v", st)
		}
	})
}

func TestTheRandomPartOfABackOffCanBeReplaced(t *testing.T) {
	for r, want := range map[float64]time.Duration{0: 5 * time.Second, 0.5: 5250 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			l, s, f := open(t, failover.Config{Rand: func() float64 { return r }})
			f.set(refuses)
			for range 3 {
				decide(t, l, "", demand("a"))
			}
			if got := s.Stats().NextProbe; got != want {
				t.Errorf("with %v the next probe is in %s, want %s", r, got, want)
			}
		})
	}
}
