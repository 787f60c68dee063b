package sluice_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// ledger is an observer that adds up.
type ledger struct {
	mu       sync.Mutex
	consumed map[sluice.Key]int64
	allowed  int
	refused  int
	failed   int
}

func (g *ledger) Decided(_ *sluice.Take, d *sluice.Decision, err error, _ time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		g.failed++
	case d.Allowed:
		g.allowed++
	default:
		g.refused++
	}
}

func (g *ledger) Waited(*sluice.Take, time.Duration, bool) {}

func (g *ledger) Consumed(k sluice.Key, _ sluice.Limit, c sluice.Consumption) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.consumed == nil {
		g.consumed = map[sluice.Key]int64{}
	}
	g.consumed[k] += c.Amount.Thousandths()
}

func (g *ledger) net(k sluice.Key) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.consumed[k]
}

// TestObserverSeesNetConsumption: of every verb, less what came back.
func TestObserverSeesNetConsumption(t *testing.T) {
	seen := &ledger{}
	l := open(t, sluice.WithObserver(seen))
	ctx := context.Background()
	rpm, tpm := demand("rpm", "10/day fixed", 1), demand("tpm", "1000/day fixed", 100)
	check := func(what string, wantRPM, wantTPM int) {
		t.Helper()
		if r, tok := seen.net(rpm.Key), seen.net(tpm.Key); r != int64(wantRPM)*sluice.Token || tok != int64(wantTPM)*sluice.Token {
			t.Errorf("after %s: %s and %s, want %d and %d", what, sluice.Thousandths(r), sluice.Thousandths(tok), wantRPM, wantTPM)
		}
	}
	must := func(_ sluice.Decision, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	must(l.Take(ctx, rpm, tpm))
	check("a take", 1, 100)
	must(l.Peek(ctx, rpm, tpm))
	check("a peek", 1, 100)
	must(l.Take(ctx, rpm, demand("tpm", "1000/day fixed", 950)))
	check("a refusal", 1, 100)
	refund := tpm
	refund.Cost = sluice.Tokens(-30)
	must(l.Adjust(ctx, refund))
	check("a refund", 1, 70)
	refund.Cost = sluice.Tokens(-70)
	must(l.Adjust(ctx, refund))
	check("a refund of all that was used", 1, 0)

	lease, _, err := l.Acquire(ctx, takeOf(rpm, tpm))
	must(sluice.Decision{}, err)
	check("a lease", 2, 100)
	must(lease.Adjust(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(340)}))
	check("an adjustment", 2, 340)
	must(lease.Commit(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(320)}))
	check("a commit", 2, 320)
	must(lease.Commit(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(320)}))
	check("a second commit", 2, 320)

	failure := errors.New("upstream is down")
	if err := l.Do(ctx, takeOf(rpm, tpm), func(context.Context, *sluice.Lease) error { return failure }); !errors.Is(err, failure) {
		t.Fatal(err)
	}
	check("work that failed", 2, 320)

	take := takeOf(rpm, tpm)
	take.ID = "once"
	for range 3 {
		var d sluice.Decision
		must(d, l.Decide(ctx, &take, &d))
	}
	check("one take, repeated", 3, 420)

	if _, err := l.Take(ctx, sluice.Demand{Key: rpm.Key}); err == nil {
		t.Error("no limit, no error")
	}
	if seen.allowed != 6 || seen.refused != 1 || seen.failed != 1 {
		t.Errorf("%d allowed, %d refused, %d failed", seen.allowed, seen.refused, seen.failed)
	}
}
