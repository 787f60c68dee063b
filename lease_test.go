package sluice_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
)

var errWork = errors.New("the work went wrong")

// TestDo: what the work comes to decides what stays consumed.
func TestDo(t *testing.T) {
	tokensOf := func(n int) sluice.LimitCost {
		return sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(int64(n))}
	}
	for _, c := range []struct {
		name string
		work func(context.Context, *sluice.Lease) error
		err  error
		left int
	}{
		{"success", func(context.Context, *sluice.Lease) error { return nil }, nil, 900},
		{"failure", func(context.Context, *sluice.Lease) error { return errWork }, errWork, 1000},
		{"adjusted", func(ctx context.Context, le *sluice.Lease) error {
			_, err := le.Adjust(ctx, tokensOf(250))
			return err
		}, nil, 750},
		{"adjusted, then failed", func(ctx context.Context, le *sluice.Lease) error {
			_, err := le.Adjust(ctx, tokensOf(250))
			return errors.Join(err, errWork)
		}, errWork, 1000},
		{"committed by itself", func(ctx context.Context, le *sluice.Lease) error {
			_, err := le.Commit(ctx, tokensOf(30))
			return err
		}, nil, 970},
		{"released by itself", func(ctx context.Context, le *sluice.Lease) error { return le.Release(ctx) }, nil, 1000},
		{"committed, then failed", func(ctx context.Context, le *sluice.Lease) error {
			_, err := le.Commit(ctx, tokensOf(30))
			return errors.Join(err, errWork)
		}, errWork, 970},
	} {
		l := open(t)
		tpm := demand("tpm", "1000/day fixed", 100)
		if err := l.Do(t.Context(), takeOf(tpm), c.work); !errors.Is(err, c.err) || err != nil && c.err == nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if n := remaining(t, l, tpm); sluice.Thousandths(n).Whole() != int64(c.left) {
			t.Errorf("%s: %s are left, want %d", c.name, sluice.Thousandths(n), c.left)
		}
	}
}

// TestSettlementsHaveTheCost of the lease from then on, whoever set it last.
func TestSettlementsHaveTheCost(t *testing.T) {
	for name, end := range map[string]func(context.Context, *sluice.Lease) (sluice.Decision, error){
		"250": func(ctx context.Context, le *sluice.Lease) (sluice.Decision, error) { return le.Commit(ctx) },
		"30": func(ctx context.Context, le *sluice.Lease) (sluice.Decision, error) {
			return le.Commit(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(30)})
		},
	} {
		l := open(t)
		lease, _, err := l.Acquire(t.Context(), takeOf(demand("tpm", "1000/day fixed", 100)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lease.Adjust(t.Context(), sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(250)}); err != nil {
			t.Fatal(err)
		}
		if d, err := end(t.Context(), lease); err != nil || d.Demands[0].Cost.String() != name {
			t.Errorf("%v, %+v, want %s", err, d.Demands, name)
		}
	}
}

// TestDoAfterItsCallerLeft: the lease is settled though the context is over.
func TestDoAfterItsCallerLeft(t *testing.T) {
	l := open(t)
	tpm := demand("tpm", "1000/day fixed", 100)
	ctx, cancel := context.WithCancel(t.Context())
	err := l.Do(ctx, takeOf(tpm), func(ctx context.Context, _ *sluice.Lease) error {
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || remaining(t, l, tpm) != 1000*sluice.Token {
		t.Errorf("%v, %s are left", err, sluice.Thousandths(remaining(t, l, tpm)))
	}
}

// TestDoThatPanics: a panic, and a goroutine that ends, give everything back.
func TestDoThatPanics(t *testing.T) {
	l := open(t)
	tpm := demand("tpm", "1000/day fixed", 100)
	for _, end := range []func(){func() { panic("no") }, runtime.Goexit} {
		over := make(chan any)
		go func() {
			defer func() { over <- recover() }()
			l.Do(t.Context(), takeOf(tpm), func(context.Context, *sluice.Lease) error { //nolint:errcheck // it does not return
				end()
				return nil
			})
		}()
		<-over
		if n := remaining(t, l, tpm); n != 1000*sluice.Token {
			t.Errorf("%s are left", sluice.Thousandths(n))
		}
	}
}

func TestDoThatIsRefused(t *testing.T) {
	l := open(t)
	ran := false
	work := func(context.Context, *sluice.Lease) error { ran = true; return nil }
	var refused *sluice.RefusedError
	if err := l.Do(t.Context(), takeOf(demand("tpm", "5/day", 6)), work); !errors.As(err, &refused) || refused.RetryAfter != sluice.Never {
		t.Errorf("%v", err)
	}
	if err := l.Do(t.Context(), sluice.Take{}, work); err == nil {
		t.Error("nothing was demanded, and that was no error")
	}
	peek := takeOf(demand("tpm", "5/day", 1))
	peek.Peek = true
	wantField(t, "work under a peek", l.Do(t.Context(), peek, work), "take.peek: true: a peek has no lease")
	if ran {
		t.Error("refused work was run")
	}
}

func TestAcquireThatIsRefused(t *testing.T) {
	l := open(t)
	lease, d, err := l.Acquire(t.Context(), takeOf(demand("tpm", "5/day", 6)))
	if lease != nil || d.Allowed || err != nil {
		t.Errorf("%v, %+v, %v", lease, d, err)
	}
}

// TestLeaseExpires: tokens stay spent, places are freed, and the lease is
// closed.
func TestLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t)
		tpm, parallel := demand("tpm", "1000/day fixed", 100), demand("parallel", "2 concurrent", 2)
		take := takeOf(tpm, parallel)
		take.Keep = 10 * time.Second
		lease, _, err := l.Acquire(t.Context(), take)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		if err := lease.Renew(t.Context(), 10*time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		if n := remaining(t, l, parallel); n != 0 {
			t.Errorf("%s places are free under a renewed lease", sluice.Thousandths(n))
		}
		time.Sleep(time.Second)
		if n := remaining(t, l, parallel); n != 2*sluice.Token {
			t.Errorf("%s places are free after the lease expired", sluice.Thousandths(n))
		}
		if n := remaining(t, l, tpm); n != 900*sluice.Token {
			t.Errorf("%s are left", sluice.Thousandths(n))
		}
		for name, err := range map[string]error{
			"renew":   lease.Renew(t.Context(), time.Second),
			"release": lease.Release(t.Context()),
			"commit":  func() error { _, err := lease.Commit(t.Context()); return err }(),
			"adjust":  func() error { _, err := lease.Adjust(t.Context()); return err }(),
			"unknown": l.Lease("nobody's").Release(t.Context()),
		} {
			if !errors.Is(err, sluice.ErrLeaseClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestSettlementsThatAreRefusedAsWrong(t *testing.T) {
	l := open(t)
	lease, _, err := l.Acquire(t.Context(), takeOf(demand("tpm", "1000/day", 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		settlement sluice.Settlement
		want       string
	}{
		{sluice.Settlement{}, "lease.id: : must be the id of a lease"},
		{sluice.Settlement{ID: strings.Repeat("k", 129)}, "lease.id: " + strings.Repeat("k", 32) + ": must be the id of a lease"},
		{sluice.Settlement{ID: lease.ID, Action: sluice.Renew},
			"lease.keep: 0s: must be above 0 and at most a week to renew, and 0 otherwise"},
		{sluice.Settlement{ID: lease.ID, Action: sluice.Renew, Keep: 8 * day},
			"lease.keep: 192h0m0s: must be above 0 and at most a week to renew, and 0 otherwise"},
		{sluice.Settlement{ID: lease.ID, Action: sluice.Commit, Keep: time.Second},
			"lease.keep: 1s: must be above 0 and at most a week to renew, and 0 otherwise"},
		{sluice.Settlement{ID: lease.ID, Costs: []sluice.LimitCost{{Limit: "tpm", Cost: sluice.Thousandths(-1)}}},
			"lease.costs[tpm]: -0.001: must be between 0 and 1000000000000"},
		{sluice.Settlement{ID: lease.ID, Costs: []sluice.LimitCost{{Limit: "tpm", Cost: sluice.Thousandths(sluice.MaxThousandths + 1)}}},
			"lease.costs[tpm]: 1000000000000.001: must be between 0 and 1000000000000"},
	} {
		_, err := l.Settle(t.Context(), c.settlement)
		wantField(t, "settle", err, c.want)
	}
}

// TestLeaseOfAnotherNode: the id is enough to settle it.
func TestLeaseOfAnotherNode(t *testing.T) {
	store := openStore(t)
	here, there := sluice.New(store), sluice.New(store)
	tpm := demand("tpm", "1000/day fixed", 100)
	lease, _, err := here.Acquire(t.Context(), takeOf(tpm))
	if err != nil {
		t.Fatal(err)
	}
	if err := there.Lease(lease.ID).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := remaining(t, here, tpm); n != 1000*sluice.Token {
		t.Errorf("%s are left", sluice.Thousandths(n))
	}
}
