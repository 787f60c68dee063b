package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// waitForPlace has one process hold the only place of a concurrency limit, and
// another wait for it. It answers how long after the release the wait ended.
func waitForPlace(t *testing.T, holder, waiter sluice.Store) time.Duration {
	t.Helper()
	ctx := context.Background()
	one := sluice.Take{Demands: []sluice.Demand{{
		Key: sluice.Key{Entity: "alice", Limit: "flights"}, Limit: sluice.MustParse("1 concurrent"),
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
	eventually(t, "somebody waits", func() bool { return postgres.Waiting(waiter.(*postgres.Store)) })
	released := time.Now()
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return time.Since(released)
}

// TestReleaseWakesOtherProcesses waits in one process for what another has.
func TestReleaseWakesOtherProcesses(t *testing.T) {
	address := postgrestest.Database(t)
	a, b := open(t, postgres.Config{Address: address}), open(t, postgres.Config{Address: address})
	t.Logf("woken after %s", waitForPlace(t, a, b).Round(time.Millisecond))
}

// TestRoomIsHeardOf tells other processes of every way to make room.
func TestRoomIsHeardOf(t *testing.T) {
	address := postgrestest.Database(t)
	ctx := context.Background()
	a, b := open(t, postgres.Config{Address: address}), open(t, postgres.Config{Address: address})
	heard := make(chan sluice.Key, 100)
	b.Watch(func(k sluice.Key) { heard <- k })
	eventually(t, "b listens", func() bool { return postgres.Hearing(b) })

	l := sluice.New(a)
	limit := "1/week burst 10"
	odd := demand("strange \x00\xff/\\ \"☃\"", limit, 1)
	take(t, a, odd, true)
	d := demand("alice", limit, 1)
	take(t, a, d, true)
	hold := sluice.HoldRequest{Key: d.Key, Limit: d.Limit, ID: sluice.HoldID{Node: 1, Seq: 1}, Max: sluice.Token, TTL: time.Hour}
	grants := make([]sluice.Grant, 1)
	if err := a.Hold(ctx, []sluice.HoldRequest{hold}, grants); err != nil || grants[0].Amount == 0 {
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
	refund := d
	refund.Cost = -sluice.Token
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
	eventually(t, "b listens", func() bool { return postgres.Hearing(b) })
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b noticed", func() bool { return !postgres.Hearing(b) })
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b listens again", func() bool { return postgres.Hearing(b) })
	d := demand("alice", "10/hour", 1)
	if err := sluice.New(a).Reset(context.Background(), d.Key); err != nil {
		t.Fatal(err)
	}
	if k := <-heard; k != d.Key {
		t.Errorf("heard of %v", k)
	}
}
