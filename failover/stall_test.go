package failover_test

import (
	"bytes"
	"context"
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

// hundred is a hundred callers that ask ten times a second each, for some time.
func hundred(t *testing.T, l *sluice.Limiter, last time.Duration) (wait func()) {
	t.Helper()
	var callers sync.WaitGroup
	end := time.Now().Add(last)
	for i := range 100 {
		callers.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			for time.Now().Before(end) {
				decide(t, l, "enterprise", demand(fmt.Sprint("customer ", i)))
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	return callers.Wait
}

func TestAStallIsOneEvent(t *testing.T) {
	for _, stall := range []time.Duration{100 * time.Millisecond, 240 * time.Millisecond, 400 * time.Millisecond, 490 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			l, s, f := open(t, failover.Config{})
			wait := hundred(t, l, 3*time.Second)
			time.Sleep(time.Second)
			f.set(hangs)
			time.Sleep(stall)
			f.set(none)
			wait()
			st := s.Stats()
			if st.Entered[failover.Open] != 0 || st.TimedOut == 0 {
				t.Errorf("a stall of %s opened the breaker %d times after %d time-outs", stall, st.Entered[failover.Open], st.TimedOut)
			}
		})
	}
}

func TestFailuresTogetherCountOnceThoughAnAnswerCameBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{Failures: 2})
		f.set(hangs)
		var callers sync.WaitGroup
		for i := range 4 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * 10 * time.Millisecond)
				decide(t, l, "", demand("a"))
			})
		}
		time.Sleep(255 * time.Millisecond) // the first has failed
		f.set(none)
		decide(t, l, "", demand("a"))
		callers.Wait()
		f.set(refuses)
		decide(t, l, "", demand("a"))
		wantState(t, s, failover.Normal)
	})
}

func TestAShortOutageEndsWithoutPhases(t *testing.T) {
	for name, fault := range map[string]fault{"refuses": refuses, "hangs": hangs, "deaf": deaf, "cuts": cuts, "babbles": babbles} {
		for _, away := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			t.Run(fmt.Sprint(name, away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, s, f := open(t, failover.Config{})
					f.checked = true
					start := time.Now()
					breakBy(t, l, s, f, fault)
					time.Sleep(away - time.Since(start))
					f.set(none)
					time.Sleep(2 * time.Second)
					wantState(t, s, failover.Normal) // without any caller
					if st := s.Stats(); st.Entered[failover.Testing] != 0 || st.Recoveries != 1 {
						t.Errorf("stats %+v", st)
					}
				})
			})
		}
	}
}

func TestAnOutageAsLongAsTheBackOffEndsInPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		f.checked = true
		breakBy(t, l, s, f, refuses)
		time.Sleep(5 * time.Second)
		f.set(none)
		time.Sleep(2 * time.Second)
		wantState(t, s, failover.Testing)
	})
}

func TestAStoreThatComesAndGoesHasOneLongOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		f.checked = true
		for range 2 {
			breakBy(t, l, s, f, refuses)
			time.Sleep(time.Second)
			f.set(none)
			time.Sleep(2 * time.Second)
			wantState(t, s, failover.Normal)
		}
		breakBy(t, l, s, f, refuses) // six seconds after it began
		f.set(none)
		time.Sleep(2 * time.Second)
		wantState(t, s, failover.Testing)
		time.Sleep(backAfter + 5*time.Second)
		wantState(t, s, failover.Normal)
		breakBy(t, l, s, f, refuses) // another one
		f.set(none)
		time.Sleep(2 * time.Second)
		wantState(t, s, failover.Normal)
	})
}

// starving is a store in a process that gets no processor time: calls end, and
// late.
type starving struct {
	*faulty
	late time.Duration
}

func (s *starving) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if s.late == 0 {
		return s.faulty.Take(ctx, t, d)
	}
	<-ctx.Done()
	time.Sleep(s.late)
	return ctx.Err()
}

func TestAStarvedProcessDoesNotBlameTheStore(t *testing.T) {
	for late, want := range map[time.Duration]failover.State{
		20 * time.Millisecond: failover.Open, 30 * time.Millisecond: failover.Normal,
	} {
		synctest.Test(t, func(t *testing.T) {
			_, _, f := open(t, failover.Config{})
			inner := &starving{f, late}
			s, err := failover.New(inner, failover.Config{Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			l := sluice.New(s)
			for range 8 {
				if d := decide(t, l, "", demand("a")); s.State() == failover.Normal && d.Source != sluice.Unknown {
					t.Errorf("source %s", d.Source)
				}
			}
			wantState(t, s, want)
			if want == failover.Open {
				return
			}
			for range 5 { // but not for ever
				decide(t, l, "", demand("a"))
			}
			wantState(t, s, failover.Open)
		})
	}
}

// crowd is a store that answers, but not all who ask.
type crowd struct {
	*faulty
	full bool
}

func (c *crowd) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if !c.full {
		return c.faulty.Take(ctx, t, d)
	}
	return fmt.Errorf("postgres: %w", sluice.ErrBusy)
}

func TestACrowdIsNotAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, f := open(t, failover.Config{})
		s, err := failover.New(&crowd{f, true}, failover.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		l := sluice.New(s)
		for range 20 {
			if d := decide(t, l, "", demand("a")); d.Source != sluice.Degraded {
				t.Errorf("source %s, want degraded: nothing was sent", d.Source)
			}
		}
		wantState(t, s, failover.Normal)
		if st := s.Stats(); st.Busy != 20 || st.Unreachable != 0 {
			t.Errorf("stats %+v", st)
		}
	})
}

// spoilt is a store with a record that it cannot read.
type spoilt struct {
	*faulty
	err error
}

func (s *spoilt) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if t.Demands[0].Key.Entity == "bad" {
		return s.err
	}
	return s.faulty.Take(ctx, t, d)
}

func TestARecordThatCannotBeReadIsNotAnOutage(t *testing.T) {
	for source, err := range map[sluice.Source]error{
		sluice.Degraded: fmt.Errorf("redis: %w: another version", sluice.ErrRecord),
		sluice.Unknown:  fmt.Errorf("redis: %w: the script stopped: %w", sluice.ErrUnknown, sluice.ErrRecord),
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			_, _, f := open(t, failover.Config{})
			s, err := failover.New(&spoilt{f, err}, failover.Config{Log: slog.New(slog.NewTextHandler(&out, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			l := sluice.New(s)
			for range 20 {
				if d := decide(t, l, "", demand("bad")); d.Source != source {
					t.Errorf("source %s, want %s", d.Source, source)
				}
			}
			if d := decide(t, l, "", demand("good")); d.Source != sluice.FromStore {
				t.Errorf("another bucket was decided by %s", d.Source)
			}
			wantState(t, s, failover.Normal)
			if st := s.Stats(); st.Unreadable != 20 || st.Faulty+st.Lost != 0 {
				t.Errorf("stats %+v", st)
			}
			if log := out.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, demand("bad").Key.String()) {
				t.Errorf("the log is %q", log)
			}
		})
	}
}
