package limitstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// waitForPlace has one process hold the only place of a concurrency limit, and
// another wait for it until it is released.
func waitForPlace(t *testing.T, address string, holder, waiter sluice.Store) {
	t.Helper()
	ctx := context.Background()
	one := sluice.Take{Demands: []sluice.Demand{{
		Key: sluice.Key{Entity: "alice", Limit: "parallel"}, Limit: sluice.MustParse("1 concurrent"),
	}}, Keep: time.Hour}
	lease, _, err := sluice.New(holder).Acquire(ctx, one)
	if err != nil || lease == nil {
		t.Fatalf("lease %v, error %v", lease, err)
	}
	l := sluice.New(waiter)
	done := make(chan error)
	go func() {
		next, _, err := l.WaitAcquire(ctx, one)
		if err == nil {
			err = next.Release(ctx)
		}
		done <- err
	}()
	postgrestest.Eventually(t, "somebody waits", func() bool {
		return postgrestest.Number(t, address, "SELECT count(*) FROM sluice.bucket WHERE cardinality(tickets) = 5") == 1
	})
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestReleaseWakesOtherProcesses waits in one process for what another has.
func TestReleaseWakesOtherProcesses(t *testing.T) {
	address := postgrestest.Database(t)
	a, b := open(t, postgres.Config{Address: address}), open(t, postgres.Config{Address: address})
	waitForPlace(t, address, a, b)
}

// TestRoomIsHeardOf tells other processes of every way to make room.
func TestRoomIsHeardOf(t *testing.T) {
	address := postgrestest.Database(t)
	ctx := context.Background()
	a, b := open(t, postgres.Config{Address: address}), open(t, postgres.Config{Address: address})
	heard := make(chan sluice.Key, 100)
	b.Watch(func(k sluice.Key) { heard <- k })
	if k := <-heard; k != sluice.AnyKey {
		t.Fatalf("heard first of %v, not that anything may have been missed", k)
	}

	l := sluice.New(a)
	limit := "1/week burst 10"
	odd := demand("strange \x00\xff/\\ \"☃\"", limit, 1)
	take(t, a, odd, true)
	d := demand("alice", limit, 1)
	take(t, a, d, true)
	hold := sluice.HoldRequest{Key: d.Key, Limit: d.Limit, ID: sluice.HoldID{Node: 1, Seq: 1}, Max: sluice.Tokens(1), TTL: time.Hour}
	grants := make([]sluice.Grant, 1)
	if err := a.Hold(ctx, []sluice.HoldRequest{hold}, grants); err != nil || grants[0].Amount.Thousandths() == 0 {
		t.Fatal(grants, err)
	}
	acquire := func(id string) *sluice.Lease {
		lease, _, err := l.Acquire(ctx, sluice.Take{Demands: []sluice.Demand{d}, ID: id})
		if err != nil || lease == nil {
			t.Fatal(lease, err)
		}
		return lease
	}
	released, adjusted := acquire("released"), acquire("adjusted")
	one := sluice.Ticket{ID: sluice.HoldID{Node: 1, Seq: 7}}
	ask := func(want bool, demands ...sluice.Demand) error {
		var got sluice.Decision
		err := l.Decide(ctx, &sluice.Take{Demands: demands, Ticket: one}, &got)
		if err == nil && got.Allowed != want {
			err = fmt.Errorf("allowed is %t, want %t", got.Allowed, want)
		}
		return err
	}
	scarce, free := demand("scarce", limit, 10), demand("free", limit, 10)
	take(t, a, scarce, true)
	take(t, a, free, true)
	refund := d
	refund.Cost = sluice.Thousandths(-sluice.Token)
	for _, c := range []struct {
		name string
		key  sluice.Key
		call func() error
	}{
		{"refund", d.Key, func() error { _, err := l.Adjust(ctx, refund); return err }},
		{"release", d.Key, func() error { return released.Release(ctx) }},
		{"adjust", d.Key, func() error { _, err := adjusted.Adjust(ctx, sluice.LimitCost{Limit: "rps"}); return err }},
		{"return", d.Key, func() error { return a.Return(ctx, []sluice.HoldReturn{{Key: d.Key, Limit: d.Limit, ID: hold.ID}}) }},
		{"reset", odd.Key, func() error { return l.Reset(ctx, odd.Key) }},
		{"who waited gives up", scarce.Key, func() error {
			return errors.Join(ask(false, scarce), a.Return(ctx, []sluice.HoldReturn{{Key: scarce.Key, Limit: scarce.Limit, ID: one.ID}}))
		}},
		{"who waited can never pass", scarce.Key, func() error {
			more := scarce
			more.Cost = sluice.Thousandths(more.Cost.Thousandths() * 2)
			return errors.Join(ask(false, scarce), ask(false, more))
		}},
		{"who waited lacks only another", free.Key, func() error {
			err := ask(false, free, scarce)
			postgrestest.Exec(t, address, "UPDATE sluice.bucket SET used = 0 WHERE entity = 'free'")
			return errors.Join(err, ask(false, free, scarce))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.call(); err != nil {
				t.Fatal(err)
			}
			select {
			case k := <-heard:
				if k != c.key {
					t.Errorf("heard of %v, want %v", k, c.key)
				}
			case <-time.After(time.Minute):
				t.Error("nothing was heard")
			}
		})
	}
	postgrestest.Exec(t, address, "UPDATE sluice.bucket SET used = 0")
	if err := ask(true, free, scarce); err != nil {
		t.Error(err)
	}
	take(t, a, d, true)
	if len(heard) != 0 {
		t.Errorf("a take was told of, too: %v", <-heard)
	}
}

// TestListeningResumes restarts the server while somebody listens.
func TestListeningResumes(t *testing.T) {
	server := postgrestest.Start(t)
	address := server.Database(t)
	a, b := open(t, postgres.Config{Address: address}), open(t, postgres.Config{Address: address})
	heard := make(chan sluice.Key, 100)
	b.Watch(func(k sluice.Key) { heard <- k })
	anything := func() {
		t.Helper()
		if k := <-heard; k != sluice.AnyKey {
			t.Fatalf("heard first of %v, not that anything may have been missed", k)
		}
	}
	anything()
	b.Watch(func(k sluice.Key) { heard <- k }) // another one, who listens at once
	anything()
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	postgrestest.Eventually(t, "b noticed", func() bool { return !limitstore.Hearing(b) })
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	anything()
	anything() // each of the two
	d := demand("alice", "10/hour", 1)
	if err := sluice.New(a).Reset(context.Background(), d.Key); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if k := <-heard; k != d.Key {
			t.Errorf("heard of %v", k)
		}
	}
}
