package limitstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/storetest"
)

// notAcrossSlots are the checks that a take over several slots cannot pass to
// the letter, because what it gives back is not quite as if it had never been:
// a bucket stays under the limit that it was asked under, and at the time.
var notAcrossSlots = []string{
	"random: changing limits", "random: leases", "random: holds", "random: the clock goes back", "random: waiting",
	"random: everything",
}

// TestClusterConformance also has takes over several slots: random operations
// choose among buckets of two entities.
func TestClusterConformance(t *testing.T) {
	cluster := redistest.StartCluster(t)
	open := func(tb testing.TB, now func() time.Time) sluice.Store {
		for _, node := range cluster.Primaries() {
			node.Must("FLUSHALL")
		}
		return open(tb, redis.Config{Address: cluster.URL(), Clock: now})
	}
	for _, check := range (storetest.Config{Steps: 1500}).Checks() {
		if slices.Contains(notAcrossSlots, check.Name) {
			continue
		}
		t.Run(check.Name, func(t *testing.T) {
			if err := check.Run(t, open); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("leases across slots", func(t *testing.T) { leasesAcrossSlots(t, cluster) })
	t.Run("another number of demands", func(t *testing.T) { anotherNumber(t, cluster) })
	t.Run("one id, many callers", func(t *testing.T) { oneIDManyCallers(t, cluster) })
	t.Run("gone in between", func(t *testing.T) { goneInBetween(t, cluster) })
	t.Run("all or nothing under load", func(t *testing.T) { allOrNothingAcrossSlots(t, cluster) })
}

// leasesAcrossSlots takes a lease of buckets in several slots through one
// client, and settles it through another.
func leasesAcrossSlots(t *testing.T, cluster *redistest.Cluster) {
	ctx := context.Background()
	here := sluice.New(open(t, redis.Config{Address: cluster.URL()}))
	there := sluice.New(open(t, redis.Config{Address: cluster.URL()}))
	left := func(want map[string]float64) {
		t.Helper()
		for entity, want := range want {
			limit := "100/h"
			if entity == "door" {
				limit = "2 concurrent"
			}
			d, err := here.Peek(ctx, demand(entity, limit))
			if err != nil {
				t.Fatal(err)
			}
			if got := float64(d.Results[0].Remaining.Thousandths()) / float64(sluice.Token); got < want || got > want+0.5 {
				t.Errorf("%s: %g left, want %g", entity, got, want)
			}
		}
	}
	take := sluice.Take{Demands: []sluice.Demand{demand("x", "100/h"), demand("door", "2 concurrent"), demand("y", "100/h")}}
	take.Demands[2].Key.Limit = "tpm"
	for i := range take.Demands {
		take.Demands[i].Cost = sluice.Tokens(1)
	}
	lease, d, err := here.Acquire(ctx, take)
	if err != nil || lease == nil {
		t.Fatal(d, err)
	}
	take.ID = lease.ID
	if again, err := repeat(there, take); err != nil || !again.Repeated || !again.Allowed || len(again.Results) != 3 {
		t.Errorf("repeated: %+v, %v", again, err)
	}
	other := take
	other.Demands = slices.Clone(take.Demands)
	other.Demands[0].Cost = sluice.Tokens(2)
	if _, err := repeat(there, other); !errors.Is(err, sluice.ErrRequestMismatch) {
		t.Errorf("another take with the id: %v", err)
	}
	if d, err = there.Lease(lease.ID).Adjust(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(40)}); err != nil {
		t.Fatal(err)
	}
	if got := d.Results[2].Consumed.Thousandths(); len(d.Results) != 3 || got != 39*sluice.Token || d.Demands[2].Key.Entity != "y" {
		t.Errorf("adjusted: %+v", d)
	}
	left(map[string]float64{"x": 99, "door": 1})
	for limit, want := range map[string]string{"nonsense": "the lease has no limit of this name", "rps": "concurrency cannot be adjusted"} {
		var field *sluice.FieldError
		_, err := there.Lease(lease.ID).Commit(ctx, sluice.LimitCost{Limit: limit, Cost: sluice.Tokens(7)})
		if !errors.As(err, &field) || field.Field != "lease.costs" || field.Value != limit || field.Reason != want {
			t.Errorf("a cost of %s: %v, want %s", limit, err, want)
		}
	}
	if err := there.Lease(lease.ID).Renew(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := there.Lease(lease.ID).Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := here.Lease(lease.ID).Commit(ctx); !errors.Is(err, sluice.ErrLeaseClosed) {
		t.Errorf("committed after its release: %v", err)
	}
	left(map[string]float64{"x": 100, "door": 2})
	if d, err := repeat(here, other); err != nil || d.Repeated || !d.Allowed {
		t.Errorf("the id of a released lease: %+v, %v", d, err)
	}
	if _, err := here.Lease("nobody's").Commit(ctx); !errors.Is(err, sluice.ErrLeaseClosed) {
		t.Errorf("nobody's lease: %v", err)
	}
}

// anotherNumber settles a lease whose directory says that there are more demands
// than its receipts do. That is an error, not an answer without results.
func anotherNumber(t *testing.T, cluster *redistest.Cluster) {
	ctx := context.Background()
	l := sluice.New(open(t, redis.Config{Address: cluster.URL()}))
	take := sluice.Take{Demands: []sluice.Demand{demand("number", "100/h")}, ID: "number"}
	if lease, d, err := l.Acquire(ctx, take); err != nil || lease == nil {
		t.Fatal(d, err)
	}
	const key = "sluice:1:id:{number}"
	node := cluster.Owner(key)
	was := strings.TrimSpace(node.Must("GET", key))
	is := strings.Replace(was, `"Demands":[`, `"Demands":[{"Number":1,"Limit":"cnBz","Cost":1000},`, 1)
	if is == was {
		t.Fatal("the directory is written in another way:", was)
	}
	node.Must("SET", key, is, "KEEPTTL")
	if d, err := l.Lease("number").Commit(ctx); !errors.Is(err, sluice.ErrUnknown) {
		t.Errorf("settled: %+v, %v", d, err)
	}
}

func repeat(l *sluice.Limiter, t sluice.Take) (d sluice.Decision, err error) {
	t.Lease = true
	err = l.Decide(context.Background(), &t, &d)
	return d, err
}

// oneIDManyCallers takes with the same ids from many callers at once, over two
// slots. Each id takes once; who comes while it is under way is told so.
func oneIDManyCallers(t *testing.T, cluster *redistest.Cluster) {
	l := sluice.New(open(t, redis.Config{Address: cluster.URL()}))
	const ids, callers = 20, 6
	var first, again, busy atomic.Int64
	var wg sync.WaitGroup
	for i := range ids {
		for range callers {
			wg.Go(func() {
				take := sluice.Take{Demands: []sluice.Demand{demand("once-a", slow), demand("once-b", slow)}, ID: fmt.Sprint("once ", i)}
				d, err := repeat(l, take)
				switch {
				case errors.Is(err, sluice.ErrUnavailable):
					busy.Add(1)
				case err != nil || !d.Allowed:
					t.Errorf("%+v, %v", d, err)
				case d.Repeated:
					again.Add(1)
				default:
					first.Add(1)
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d first, %d repeated, %d under way", first.Load(), again.Load(), busy.Load())
	for _, entity := range []string{"once-a", "once-b"} {
		used := demand(entity, slow).Limit.Capacity().Thousandths() - remaining(t, cluster.URL(), demand(entity, slow))
		if sluice.Thousandths(used).Whole() != first.Load() && sluice.Thousandths(used).Whole() != first.Load()-1 { // some may have come back
			t.Errorf("%s: %s used by %d takes", entity, sluice.Thousandths(used), first.Load())
		}
	}
	if first.Load() != ids {
		t.Errorf("%d takes were the first of %d ids", first.Load(), ids)
	}
}

// goneInBetween has callers give up at any moment of a take over two slots.
// Nothing is gained: each bucket has lost what was allowed, and at most what
// was unknown beside it.
func goneInBetween(t *testing.T, cluster *redistest.Cluster) {
	l := sluice.New(open(t, redis.Config{Address: cluster.URL()}))
	demands := []sluice.Demand{demand("gone-a", slow), demand("gone-b", slow)}
	allowed, unknown, nothing := int64(0), int64(0), 0
	for i := range 120 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*10*time.Microsecond)
		d, err := l.Take(ctx, demands...)
		cancel()
		switch {
		case err == nil && d.Allowed:
			allowed++
		case errors.Is(err, sluice.ErrUnknown):
			unknown++
		case err != nil:
			nothing++
		default:
			t.Errorf("refused: %+v", d)
		}
	}
	t.Logf("%d allowed, %d unknown, %d without effect", allowed, unknown, nothing)
	for _, d := range demands {
		used := (d.Limit.Capacity().Thousandths() - remaining(t, cluster.URL(), d) + sluice.Token - 1) / sluice.Token
		if used < allowed || used > allowed+unknown {
			t.Errorf("%s: %d used, with %d allowed and %d unknown", d.Key, sluice.Thousandths(used), allowed, unknown)
		}
	}
}

// allOrNothingAcrossSlots has many callers take from two buckets in different
// slots, one of which runs dry. What is missing from each in the end is what
// was allowed.
func allOrNothingAcrossSlots(t *testing.T, cluster *redistest.Cluster) {
	l := sluice.New(open(t, redis.Config{Address: cluster.URL()}))
	plenty, scarce := demand("plenty", "1000/30d"), demand("scarce", "50/30d")
	var allowed atomic.Int64
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for range 15 {
				demands := []sluice.Demand{plenty, scarce}
				if caller%2 == 1 {
					slices.Reverse(demands)
				}
				d, err := l.Take(context.Background(), demands...)
				if err != nil {
					t.Error(err)
					return
				}
				if d.Allowed {
					allowed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	for _, d := range []sluice.Demand{plenty, scarce} {
		used := d.Limit.Capacity().Thousandths() - remaining(t, cluster.URL(), d)
		if n := (used + sluice.Token - 1) / sluice.Token; n != allowed.Load() {
			t.Errorf("%s: %s used by %d takes", d.Key, sluice.Thousandths(used), allowed.Load())
		}
	}
	if n := allowed.Load(); n < 40 || n > 50 {
		t.Errorf("%d takes of 50 tokens", n)
	}
}
