package limitstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

// TestNoDeadlocks has several processes take, lease, settle, adjust, hold and
// reset random buckets in random order, new ones among them.
func TestNoDeadlocks(t *testing.T) {
	server := postgrestest.Start(t, "deadlock_timeout=100ms", "log_lock_waits=off")
	address := server.Database(t)
	var workers sync.WaitGroup
	stop := time.Now().Add(3 * time.Second)
	for process := range 4 {
		s := open(t, postgres.Config{Address: address, Timeout: 20 * time.Second})
		l := sluice.New(s)
		for worker := range 4 {
			r := rand.New(rand.NewPCG(uint64(process), uint64(worker)))
			workers.Go(func() {
				for i := 0; time.Now().Before(stop); i++ {
					if err := doSomething(r, s, l, fmt.Sprint(process, worker, i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	workers.Wait()
	if log := server.Log(); strings.Contains(log, "deadlock detected") {
		t.Error("there was a deadlock:\n" + log)
	}
	n := postgrestest.Number(t, address, "SELECT sum(xact_commit)::bigint FROM pg_stat_database WHERE datname = current_database()")
	again := strings.Count(server.Log(), "somebody else has just created the same row")
	t.Logf("%d transactions, %d races to create a row", n, again)
}

func doSomething(r *rand.Rand, s sluice.Store, l *sluice.Limiter, id string) error {
	ctx := context.Background()
	limits := []string{"1000/s", "100/s burst 1000", "1000/s fixed", "1000/minute sliding"}
	var demands []sluice.Demand
	for _, i := range r.Perm(12)[:1+r.IntN(4)] {
		entity := fmt.Sprint("entity ", i)
		if r.IntN(10) == 0 { // one that others want at the same time, and that is new
			entity = fmt.Sprint("at ", time.Now().UnixMilli()/5, i)
		}
		demands = append(demands, demand(entity, limits[i%len(limits)], 1))
	}
	switch r.IntN(8) {
	case 0:
		lease, _, err := l.Acquire(ctx, sluice.Take{Demands: demands, ID: id})
		if err != nil || lease == nil {
			return err
		}
		if r.IntN(2) == 0 {
			return lease.Release(ctx)
		}
		_, err = lease.Commit(ctx)
		return err
	case 1:
		demands[0].Cost = sluice.Thousandths(-demands[0].Cost.Thousandths())
		_, err := l.Adjust(ctx, demands...)
		return err
	case 2:
		var requests []sluice.HoldRequest
		for _, d := range demands {
			requests = append(requests, sluice.HoldRequest{
				Key: d.Key, Limit: d.Limit, ID: sluice.HoldID{Node: r.Uint64(), Seq: r.Uint64()}, Max: sluice.Tokens(1), TTL: 10 * time.Millisecond,
			})
		}
		return s.Hold(ctx, requests, make([]sluice.Grant, len(requests)))
	case 3:
		if r.IntN(10) == 0 {
			return l.Reset(ctx, demands[0].Key)
		}
	}
	_, err := l.Take(ctx, demands...)
	return err
}

// TestTwentyOfFifty has 50 callers in five processes want one token each of
// 20: exactly 20 get one.
func TestTwentyOfFifty(t *testing.T) {
	address := postgrestest.Database(t)
	for round := range 10 {
		var passed sync.Map
		var callers sync.WaitGroup
		for process := range 5 {
			s := open(t, postgres.Config{Address: address})
			for caller := range 10 {
				callers.Go(func() {
					d, err := sluice.New(s).Take(context.Background(), demand(fmt.Sprint("round ", round), "1/hour burst 20", 1))
					if err != nil {
						t.Error(err)
					}
					if d.Allowed {
						passed.Store([2]int{process, caller}, true)
					}
				})
			}
		}
		callers.Wait()
		n := 0
		passed.Range(func(any, any) bool { n++; return true })
		if n != 20 {
			t.Errorf("round %d: %d passed, want 20", round, n)
		}
	}
}
