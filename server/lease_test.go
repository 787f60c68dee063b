package server_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func TestLeases(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("tpm", "100/hour", "parallel", "1 concurrent"), 0))(t)
	take := client.Take{Entity: "alice", Resource: "chat", Costs: map[string]sluice.Amount{"tpm": sluice.Thousandths(tokens(50))}, ID: "lease/1%2F", Keep: time.Minute}

	lease, d, err := c.Acquire(ctx, take)
	if err != nil || lease == nil || lease.ID != take.ID || !d.Allowed {
		t.Fatalf("%v %+v %v", lease, d, err)
	}
	if again, d, err := c.Acquire(ctx, take); err != nil || again.ID != lease.ID || !d.Repeated {
		t.Errorf("%v %+v %v", again, d, err)
	}
	busy, d, err := c.Acquire(ctx, client.Take{Entity: "alice", Resource: "chat"})
	if err != nil || busy != nil || d.Allowed || d.Demands[d.Decider].Key.Limit != "parallel" {
		t.Errorf("%v %+v %v", busy, d, err)
	}
	adjusted := must(lease.Adjust(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Thousandths(tokens(120))}))(t)
	if r := find(t, adjusted, "tpm"); r.Remaining.Thousandths() != tokens(-20) || r.Consumed.Thousandths() != tokens(70) {
		t.Errorf("adjusted to more than there is: %+v", adjusted)
	}
	if err := lease.Renew(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	s.now.Advance(2 * time.Minute) // past what it had at first
	// Somebody else may settle it by its id, but nobody of another namespace.
	must(c.PutNamespace(ctx, "other", ""))(t)
	if _, err := c.In("other").Lease(lease.ID).Commit(ctx); !errors.Is(err, sluice.ErrLeaseClosed) {
		t.Errorf("another namespace's lease: %v", err)
	}
	committed := must(c.Lease(lease.ID).Commit(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Thousandths(tokens(80))}))(t)
	if r := find(t, committed, "tpm"); r.Consumed.Thousandths() != tokens(-40) {
		t.Errorf("%+v", committed)
	}
	must(lease.Commit(ctx))(t) // no harm
	if _, err := lease.Adjust(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Thousandths(1)}); !errors.Is(err, sluice.ErrLeaseClosed) {
		t.Errorf("adjust after commit: %v", err)
	}

	lease, _, err = c.Acquire(ctx, client.Take{Entity: "bob", Resource: "chat", Costs: map[string]sluice.Amount{"tpm": sluice.Thousandths(tokens(50))}})
	if err != nil || lease == nil || len(lease.ID) < 20 {
		t.Fatalf("%v %v", lease, err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if e := must(c.Explain(ctx, client.Take{Entity: "bob", Resource: "chat"}))(t); find(t, *e.Decision, "tpm").Remaining.Thousandths() != tokens(100) {
		t.Errorf("after release: %+v", e)
	}
}

// find is the result of a limit.
func find(t *testing.T, d sluice.Decision, limit string) sluice.Result {
	t.Helper()
	for i := range d.Demands {
		if d.Demands[i].Key.Limit == limit {
			return d.Results[i]
		}
	}
	t.Fatalf("no %s in %+v", limit, d)
	return sluice.Result{}
}

func TestDoRunsUnderALease(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("tpm", "100/hour"), 0))(t)
	take := client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(60))}
	broken := errors.New("broken")
	if err := c.Do(ctx, take, func(context.Context, *client.Lease) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if err := c.Do(ctx, take, func(ctx context.Context, l *client.Lease) error {
		_, err := l.Adjust(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Thousandths(tokens(70))})
		return err
	}); err != nil {
		t.Error(err)
	}
	var refused *sluice.RefusedError
	if err := c.Do(ctx, take, nil); !errors.As(err, &refused) || refused.Demand.Key.Limit != "tpm" {
		t.Errorf("%v", err)
	}
}
