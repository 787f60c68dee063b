package limitstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestCluster uses one cluster for all, as it takes a while to start. The
// last part breaks it.
func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	s := open(t, redis.Config{Address: cluster.URL()})
	t.Run("verbs", func(t *testing.T) { clusterVerbs(t, s) })
	t.Run("reshard", func(t *testing.T) { clusterReshard(t, cluster, s) })
	t.Run("kill a primary", func(t *testing.T) { clusterKill(t, cluster) })
}

// clusterVerbs tries everything that is about one slot, in many slots.
func clusterVerbs(t *testing.T, s *limitstore.Store) {
	ctx, l := context.Background(), sluice.New(s)
	left := func(d sluice.Decision, err error, want int64) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Results[0].Remaining.Whole(); got != want {
			t.Fatalf("%d left, want %d", got, want)
		}
	}
	for _, entity := range []string{"a", "b", "c", "d", "e", "f"} {
		want := demand(entity, "10/h")
		d, err := l.Take(ctx, want)
		left(d, err, 9)
		d, err = l.Peek(ctx, want)
		left(d, err, 9)
		d, err = l.Wait(ctx, sluice.Take{Demands: []sluice.Demand{want}})
		left(d, err, 8)
		want.Cost = sluice.Tokens(3)
		d, err = l.Adjust(ctx, want)
		left(d, err, 5)
		want.Cost = sluice.Tokens(20)
		d, err = l.TakeUpTo(ctx, want)
		left(d, err, 0)
		if d.Granted.Whole() != 5 {
			t.Fatalf("granted %s, want 5", d.Granted)
		}
		if d, err = l.Take(ctx, demand(entity, "10/h")); err != nil || d.Allowed {
			t.Fatalf("taken from an empty bucket: %v, %v", d, err)
		}
	}
	page, err := l.List(ctx, sluice.Query{Resource: "r"})
	if err != nil || len(page.Buckets) != 6 {
		t.Fatalf("listed %d buckets, want 6 (%v)", len(page.Buckets), err)
	}
	keys := make([]sluice.Key, len(page.Buckets))
	for i := range page.Buckets {
		keys[i] = page.Buckets[i].Key
	}
	if err := l.Reset(ctx, keys...); err != nil {
		t.Fatal(err)
	}
	requests, grants := make([]sluice.HoldRequest, len(keys)), make([]sluice.Grant, len(keys))
	returns := make([]sluice.HoldReturn, len(keys))
	for i, k := range keys {
		id, limit := sluice.HoldID{Node: 1, Seq: uint64(i)}, sluice.MustParse("10/h")
		requests[i] = sluice.HoldRequest{Key: k, Limit: limit, ID: id, Max: sluice.Tokens(4), TTL: time.Minute}
		returns[i] = sluice.HoldReturn{Key: k, Limit: limit, ID: id, Spent: sluice.Tokens(1)}
	}
	if err := s.Hold(ctx, requests, grants); err != nil {
		t.Fatal(err)
	}
	for i := range grants {
		if grants[i].Amount.Thousandths() != 4*sluice.Token {
			t.Errorf("%s: granted %s, want 4", keys[i], grants[i].Amount)
		}
	}
	if err := s.Return(ctx, returns); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		d, err := l.Peek(ctx, sluice.Demand{Key: k, Limit: sluice.MustParse("10/h")})
		left(d, err, 9)
	}
}

// clusterReshard moves the bucket that everyone takes from to each primary in
// turn. Redirections are followed, so nobody notices.
func clusterReshard(t *testing.T, cluster *redistest.Cluster, s *limitstore.Store) {
	const entity = "moving"
	w := startLoad(t, sluice.New(s), demand(entity, busy))
	w.goesOn(t)
	moves := 0
	for range 2 {
		for _, to := range cluster.Primaries() {
			if cluster.Owner(recordOf(entity)) != to {
				cluster.Move(recordOf(entity), to)
				moves++
				w.goesOn(t)
			}
		}
	}
	w.end()
	w.report(t)
	w.mustNotFail(t)
	t.Logf("%d moves", moves)
	if over := w.over(t); over > 0 {
		t.Errorf("%s tokens over the bound", sluice.Thousandths(over))
	}
}

// clusterKill kills the primary of the bucket that everyone takes from. Its
// replica may not know of the last takes; what is lost that way can be taken
// again, and that is all.
func clusterKill(t *testing.T, cluster *redistest.Cluster) {
	const entity = "orphan"
	s := open(t, redis.Config{Address: cluster.URL(), Timeout: time.Second})
	l := sluice.New(s)
	w := startLoad(t, l, demand(entity, busy))
	// The same slot, as it is the same entity and resource.
	beside := demand(entity, slow)
	beside.Key.Limit = "counted"
	counted := startLoad(t, l, beside)
	w.goesOn(t)
	primary := cluster.Owner(recordOf(entity))
	if primary == nil {
		t.Fatal("nobody serves the bucket")
	}
	primary.Kill()
	t.Logf("takes passed again %s after the primary was killed", w.resumes(t).Round(time.Millisecond))
	w.goesOn(t)
	counted.goesOn(t)
	w.end()
	counted.end()
	w.report(t)
	t.Logf("at least %d of %d takes were lost", counted.lost(t, cluster.URL()), counted.passed.Load())
	over := w.over(t)
	t.Logf("%s tokens over the bound", sluice.Thousandths(over))
	if over > w.demand.Limit.Capacity().Thousandths() {
		t.Errorf("%s over the bound: a failover cannot lose more than the capacity", sluice.Thousandths(over))
	}
}
