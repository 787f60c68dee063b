package catalog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/memory"
)

// accounts is a store of buckets whose time the test moves, with nodes that
// write down what they take.
type accounts struct {
	*bench
	now   *testclock.Clock
	store *memory.Store
}

func openAccounts(t *testing.T) *accounts {
	a := &accounts{bench: open(t, catalog.Config{}), now: testclock.New(time.Date(2026, 3, 1, 10, 59, 59, 0, time.UTC))}
	store, err := memory.Open(memory.Config{Clock: a.now.Now})
	a.no(err)
	t.Cleanup(func() { a.no(store.Close()) })
	a.store = store
	return a
}

// node is a limiter, and a function that writes down what it took.
func (a *accounts) node() (l *sluice.Limiter, flush func()) {
	r, err := catalog.NewRecorder(catalog.RecorderConfig{Store: a.bench.store, Every: time.Minute})
	a.no(err)
	a.t.Cleanup(func() { a.no(r.Close()) })
	return sluice.New(a.store, sluice.WithObserver(r)), func() { a.no(r.Flush(a.ctx)) }
}

func (a *accounts) lease(l *sluice.Limiter, rule string, cost int64) *sluice.Lease {
	a.t.Helper()
	lease, d, err := l.Acquire(a.ctx, sluice.Take{Keep: time.Hour, Demands: []sluice.Demand{{
		Key:   sluice.Key{Namespace: catalog.DefaultNamespace, Entity: "alice", Resource: "chat", Limit: "tpm"},
		Limit: sluice.MustParse(rule), Cost: sluice.Tokens(cost),
	}}})
	a.no(err)
	if lease == nil {
		a.t.Fatalf("refused: %+v", d)
	}
	return lease
}

// wants compares all that is written down about alice.
func (a *accounts) wants(span catalog.Span, want ...string) {
	a.t.Helper()
	page, err := a.c.Usage(a.ctx, catalog.DefaultNamespace, catalog.UsedQuery{Entity: "alice", Span: span, From: a.now.Now().AddDate(0, 0, -2), To: a.now.Now().AddDate(0, 0, 2)})
	a.no(err)
	var got []string
	for _, u := range page.Used {
		got = append(got, fmt.Sprintf("%s in %d at %d", u.Amount, u.Count, u.Start.Hour()))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		a.t.Errorf("by %s: %q, want %q", span, got, want)
	}
}

// TestUsageDoesNotDependOnRefill: what a lease gave back is no longer consumed,
// even if the bucket was full again before.
func TestUsageDoesNotDependOnRefill(t *testing.T) {
	a := openAccounts(t)
	l, flush := a.node()
	lease := a.lease(l, "100/s", 80)
	a.now.Advance(1200 * time.Millisecond)
	a.no(lease.Release(a.ctx))
	flush()
	a.wants(catalog.Hourly, "0 in 1 at 10") // the hour of the take
	a.wants(catalog.Total, "0 in 1 at 0")
}

// TestEstimatesAreSettledInTheHourOfTheTake: twenty calls are estimated at 4000
// tokens each and turn out to cost 700, on another node and in the next hour.
func TestEstimatesAreSettledInTheHourOfTheTake(t *testing.T) {
	a := openAccounts(t)
	l, flush := a.node()
	other, flushOther := a.node()
	for range 20 {
		lease := a.lease(l, "4000/s", 4000)
		a.now.Advance(1500 * time.Millisecond)
		_, err := other.Lease(lease.ID).Commit(a.ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(700)})
		a.no(err)
	}
	flushOther()
	a.wants(catalog.Hourly, "0 in 0 at 10", "0 in 0 at 11") // never less than nothing
	flush()
	a.wants(catalog.Hourly, "700 in 1 at 10", "13300 in 19 at 11")
	a.wants(catalog.Daily, "14000 in 20 at 0")
	a.wants(catalog.Total, "14000 in 20 at 0")
}

// TestTotalsAreReadInParts: however many series are asked for, no statement asks
// a store for more than it takes.
func TestTotalsAreReadInParts(t *testing.T) {
	a := openAccounts(t)
	l, flush := a.node()
	a.lease(l, "100/s", 80)
	flush()
	a.bench.store.totals = nil // what the recorder has asked
	series := make([]catalog.Series, 2500)
	for i := range series {
		series[i] = catalog.Series{Entity: fmt.Sprint("e", i), Resource: "chat", Limit: "tpm"}
	}
	alice := catalog.Series{Entity: "alice", Resource: "chat", Limit: "tpm"}
	series[2400] = alice
	totals, err := a.c.Totals(a.ctx, catalog.DefaultNamespace, series)
	a.no(err)
	if len(totals) != 1 || totals[alice].Amount.Thousandths() != 80*sluice.Token {
		t.Errorf("totals are %+v", totals)
	}
	if got := fmt.Sprint(a.bench.store.totals); got != "[1000 1000 500]" {
		t.Errorf("%s series were asked for at once", got)
	}
}
