package failover_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
)

// closeBreaker breaks the store, mends it and brings it to the first phase.
func closeBreaker(tb testing.TB, l *sluice.Limiter, s *failover.Store, f *faulty) {
	tb.Helper()
	breakOpen(tb, l, s, f)
	time.Sleep(s.Stats().NextProbe)
	f.set(none)
	for range 3 {
		decide(tb, l, "", critical("closer"))
	}
	wantState(tb, s, failover.Testing)
}

// succeed is that many answers by the store.
func succeed(tb testing.TB, l *sluice.Limiter, n int) {
	tb.Helper()
	for range n {
		if d := decide(tb, l, "", critical("a")); d.Source != sluice.FromStore {
			tb.Fatalf("a critical take was decided by %s", d.Source)
		}
	}
}

func TestSuccessesAloneEndNoPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		closeBreaker(t, l, s, f)
		for _, p := range []struct {
			state failover.State
			after time.Duration
		}{
			{failover.Testing, 10 * time.Second},
			{failover.Partial, 20 * time.Second},
			{failover.Stabilizing, 30 * time.Second},
		} {
			wantState(t, s, p.state)
			succeed(t, l, 100) // enough of them, but too soon
			time.Sleep(p.after - time.Nanosecond)
			succeed(t, l, 1)
			wantState(t, s, p.state)
			time.Sleep(time.Nanosecond)
			succeed(t, l, 1)
		}
		wantState(t, s, failover.Normal)
	})
}

func TestTimeAloneEndsNoPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		closeBreaker(t, l, s, f)
		for _, successes := range []int{5, 10, 20} {
			before := s.State()
			time.Sleep(5 * time.Minute)
			succeed(t, l, successes-1)
			wantState(t, s, before)
			succeed(t, l, 1)
			if s.State() == before {
				t.Fatalf("still %s after %d successes", before, successes)
			}
		}
		wantState(t, s, failover.Normal)
	})
}

func TestAFailureStepsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		fail := func() {
			f.set(cuts)
			decide(t, l, "", critical("a"))
			f.set(none)
		}
		pass := func(n int, after time.Duration) {
			time.Sleep(after)
			succeed(t, l, n)
		}
		closeBreaker(t, l, s, f)
		pass(5, 10*time.Second)
		pass(10, 20*time.Second)
		wantState(t, s, failover.Stabilizing)
		fail()
		wantState(t, s, failover.Partial)
		pass(10, 19*time.Second)
		wantState(t, s, failover.Partial) // its time begins anew
		fail()
		wantState(t, s, failover.Testing)
		pass(1, 0)
		fail()
		wantState(t, s, failover.Testing)
		pass(5, 10*time.Second)
		wantState(t, s, failover.Partial)
		fail()
		fail()
		wantState(t, s, failover.Testing)
		fail() // the third in a row
		wantState(t, s, failover.Open)
	})
}

func TestFailuresTogetherStepBackOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		closeBreaker(t, l, s, f)
		time.Sleep(10 * time.Second)
		succeed(t, l, 5)
		time.Sleep(20 * time.Second)
		succeed(t, l, 10)
		wantState(t, s, failover.Stabilizing)
		f.set(hangs)
		var callers sync.WaitGroup
		for range 2 {
			callers.Go(func() { decide(t, l, "", critical("a")) })
		}
		callers.Wait()
		wantState(t, s, failover.Partial)
		decide(t, l, "", critical("a")) // the second in a row
		wantState(t, s, failover.Testing)
		decide(t, l, "", critical("a"))
		wantState(t, s, failover.Open)
	})
}

func TestSuccessesCountForThePhaseTheyWereAskedIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{Timeout: time.Hour})
		closeBreaker(t, l, s, f)
		answer := make(chan struct{})
		f.hooks = func(t *sluice.Take) {
			if t.Demands[0].Key.Entity == "slow" {
				<-answer
			}
		}
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() { decide(t, l, "", critical("slow")) })
		}
		time.Sleep(10 * time.Second)
		succeed(t, l, 5)
		wantState(t, s, failover.Partial)
		time.Sleep(20 * time.Second)
		close(answer)
		callers.Wait()
		wantState(t, s, failover.Partial)
		succeed(t, l, 10)
		wantState(t, s, failover.Stabilizing)
	})
}

// included are the entities that the store is asked for now.
func included(t *testing.T, l *sluice.Limiter, entities []string) map[string]bool {
	asked := map[string]bool{}
	for _, e := range entities {
		switch d := decide(t, l, "", demand(e)); d.Source {
		case sluice.FromStore:
			asked[e] = true
		case sluice.Degraded:
		default:
			t.Fatalf("source %s", d.Source)
		}
	}
	return asked
}

func TestEachPhaseAsksForALargerShareOfTheSameKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		entities := make([]string, 10_000)
		for i := range entities {
			entities[i] = fmt.Sprint("customer-", i)
		}
		closeBreaker(t, l, s, f)
		var before map[string]bool
		for _, p := range []struct {
			state failover.State
			share float64
			after time.Duration
		}{
			{failover.Testing, 5, 10 * time.Second},
			{failover.Partial, 25, 20 * time.Second},
			{failover.Stabilizing, 60, 30 * time.Second},
			{failover.Normal, 100, 0},
		} {
			wantState(t, s, p.state)
			asked := included(t, l, entities)
			share := float64(len(asked)) / float64(len(entities)) * 100
			if share < p.share-1 || share > p.share+1 {
				t.Errorf("%s asks for %.2f %% of the keys, want %.0f %%", p.state, share, p.share)
			}
			t.Logf("%s: %.2f %%", p.state, share)
			for e := range before {
				if !asked[e] {
					t.Fatalf("%s was asked for before, but not in %s", e, p.state)
				}
			}
			if again := included(t, l, entities[:1000]); p.state != failover.Normal {
				for _, e := range entities[:1000] {
					if again[e] != asked[e] {
						t.Fatalf("%s flips within %s", e, p.state)
					}
				}
			}
			before = asked
			time.Sleep(p.after)
			succeed(t, l, 1)
		}
	})
}

func TestNodesAgreeOnTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var first map[string]bool
		for range 2 {
			l, s, f := open(t, failover.Config{})
			entities := make([]string, 1000)
			for i := range entities {
				entities[i] = fmt.Sprint(i)
			}
			closeBreaker(t, l, s, f)
			asked := included(t, l, entities)
			if first == nil {
				first = asked
			} else if fmt.Sprint(first) != fmt.Sprint(asked) {
				t.Errorf("one node asks for %d keys, another for %d others", len(first), len(asked))
			}
		}
	})
}

func TestASharedLimitDoesNotDecideForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{Quotas: map[string]failover.Quota{"": {Limit: sluice.Per(1000, time.Second)}}})
		closeBreaker(t, l, s, f)
		asked := 0
		for i := range 5000 {
			if decide(t, l, "", demand("global"), demand(fmt.Sprint("user", i))).Source == sluice.FromStore {
				asked++
			}
		}
		if asked < 200 || asked > 300 {
			t.Errorf("%d of 5000 takes with a limit in common were asked, want about 5 %%", asked)
		}
	})
}

func TestLimitsOfOneEntityHaveOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		closeBreaker(t, l, s, f)
		for i := range 300 {
			one, other := demand(fmt.Sprint(i)), demand(fmt.Sprint(i))
			other.Key.Limit, other.Key.Resource = "tpm", "other"
			if a, b := decide(t, l, "pro", one), decide(t, l, "pro", one, other); a.Source != b.Source {
				t.Fatalf("%d flips between %s and %s with its limits", i, a.Source, b.Source)
			}
		}
	})
}

func TestRecoveryEndsWithASingleKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		closeBreaker(t, l, s, f)
		// An entity that is not in any phase's share.
		var last string
		for i := 0; last == ""; i++ {
			e := fmt.Sprint("e", i)
			if decide(t, l, "", demand(e)).Source == sluice.Degraded {
				last = e
			}
		}
		start := time.Now()
		for s.State() != failover.Normal && time.Since(start) < 10*time.Minute {
			decide(t, l, "enterprise", demand(last))
			time.Sleep(time.Second)
		}
		wantState(t, s, failover.Normal)
		if took := time.Since(start); took < time.Minute || took > 2*time.Minute {
			t.Errorf("recovery with one key took %s", took)
		}
	})
}

func TestDenyingTakesAreAskedInEveryPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		closeBreaker(t, l, s, f)
		for i := range 100 {
			strict := demand(fmt.Sprint("e", i))
			strict.OnUnavailable = sluice.Deny
			if d := decide(t, l, "", strict); !d.Allowed || d.Source != sluice.FromStore {
				t.Fatalf("a take that would be denied was decided by %s", d.Source)
			}
		}
	})
}

func TestHoldsFollowTheShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, s, f := open(t, failover.Config{})
		ctx := context.Background()
		requests := make([]sluice.HoldRequest, 1000)
		for i := range requests {
			dm := demand(fmt.Sprint("e", i))
			requests[i] = sluice.HoldRequest{
				Key: dm.Key, Limit: dm.Limit, ID: sluice.HoldID{Node: 1, Seq: uint64(i + 1)},
				Min: sluice.Tokens(1), Max: sluice.Tokens(10), TTL: time.Minute,
			}
		}
		grants := make([]sluice.Grant, len(requests))
		granted := func() (n int) {
			if err := s.Hold(ctx, requests, grants); err != nil {
				t.Fatal(err)
			}
			for i, g := range grants {
				if g.Now.IsZero() || g.Amount.Thousandths() == 0 && g.RetryIn != 0 {
					t.Fatalf("grant %+v", g)
				}
				if g.Amount.Thousandths() > 0 {
					n++
					if d := decide(t, l, "", sluice.Demand{Key: requests[i].Key, Limit: requests[i].Limit}); d.Source != sluice.FromStore {
						t.Fatalf("%s was granted tokens but its take was decided by %s", requests[i].Key, d.Source)
					}
				}
			}
			return n
		}
		if n := granted(); n != 1000 {
			t.Errorf("%d of 1000 holds granted in the normal state", n)
		}
		breakOpen(t, l, s, f)
		if err := s.Hold(ctx, requests, grants); !errors.Is(err, sluice.ErrUnavailable) {
			t.Errorf("holding while open: %v", err)
		}
		closeBreaker(t, l, s, f)
		if n := granted(); n < 30 || n > 70 {
			t.Errorf("%d of 1000 holds granted in the first phase, want about 50", n)
		}
		for i := range requests {
			if decide(t, l, "", sluice.Demand{Key: requests[i].Key, Limit: requests[i].Limit}).Source == sluice.Degraded {
				if err := s.Hold(ctx, requests[i:i+1], grants); !errors.Is(err, sluice.ErrUnavailable) {
					t.Errorf("holding a key whose turn has not come: %v", err)
				}
				break
			}
		}
	})
}
