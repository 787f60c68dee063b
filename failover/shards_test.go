package failover_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// sharded is a store of three shards, of which one may be dead. A key or an id is
// in the shard that its length says.
type sharded struct {
	*memory.Store
	dead atomic.Int64
}

func (s *sharded) ShardOf(k sluice.Key) int { return len(k.Entity) % 3 }
func (s *sharded) ShardOfID(id string) int  { return len(id) % 3 }

func (s *sharded) err(shards ...int) error {
	if slices.Contains(shards, int(s.dead.Load())) {
		return fmt.Errorf("%w: connection refused", sluice.ErrUnavailable)
	}
	return nil
}

func (s *sharded) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	var shards []int
	for i := range t.Demands {
		shards = append(shards, s.ShardOf(t.Demands[i].Key))
	}
	if t.ID != "" {
		shards = append(shards, s.ShardOfID(t.ID))
	}
	if err := s.err(shards...); err != nil {
		return err
	}
	return s.Store.Take(ctx, t, d)
}

func (s *sharded) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	for i := range requests {
		if err := s.err(s.ShardOf(requests[i].Key)); err != nil {
			return err
		}
	}
	return s.Store.Hold(ctx, requests, grants)
}

func (s *sharded) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	for i := range returns {
		if err := s.err(s.ShardOf(returns[i].Key)); err != nil {
			return err
		}
	}
	return s.Store.Return(ctx, returns)
}

// TestADeadShardDegradesItsOwnKeysOnly has takes of one shard, of two, and with
// an id in another. Only those that need the dead one are decided locally.
func TestADeadShardDegradesItsOwnKeysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := memory.Open(memory.Config{Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		parts := &sharded{Store: inner}
		parts.dead.Store(1)
		s, err := failover.New(parts, failover.Config{Log: quiet, Shards: parts})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		l := sluice.New(s)
		source := func(id string, entities ...string) sluice.Source {
			take, d := sluice.Take{ID: id, Tier: "enterprise"}, sluice.Decision{}
			for _, entity := range entities {
				take.Demands = append(take.Demands, demand(entity))
			}
			if err := l.Decide(t.Context(), &take, &d); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			synctest.Wait() // for a check that it may have caused
			return d.Source
		}
		for range 10 {
			if got := source("", "aaa"); got != sluice.FromStore {
				t.Fatalf("a living shard: %s", got)
			}
			for _, got := range []sluice.Source{source("", "a"), source("", "aaa", "a"), source("i", "aa")} {
				if got != sluice.Degraded {
					t.Fatalf("a dead shard: %s", got)
				}
			}
			if got := source("iii", "aa", "aaa"); got != sluice.FromStore {
				t.Fatalf("two living shards: %s", got)
			}
			time.Sleep(10 * time.Millisecond)
		}
		wantState(t, s, failover.Open)
		if n := s.Stats().Entered[failover.Open]; n != 1 {
			t.Errorf("%d breakers opened, want 1", n)
		}

		hold := func(entity string) sluice.HoldRequest {
			dm := demand(entity)
			return sluice.HoldRequest{Key: dm.Key, Limit: dm.Limit, ID: sluice.HoldID{Node: 1, Seq: uint64(len(entity))}, Max: sluice.Tokens(1), TTL: time.Minute}
		}
		grants := make([]sluice.Grant, 3)
		err = s.Hold(t.Context(), []sluice.HoldRequest{hold("b"), hold("bb"), hold("bbb")}, grants)
		if err != nil || grants[0].Amount.Whole() != 0 || grants[0].RetryIn != 0 || grants[1].Amount.Whole() != 1 || grants[2].Amount.Whole() != 1 {
			t.Errorf("%+v, %v", grants, err)
		}

		parts.dead.Store(-1)
		time.Sleep(5 * time.Second)
		if got := source("", "aaa", "a"); got != sluice.FromStore {
			t.Errorf("the shard is back: %s", got)
		}
		wantState(t, s, failover.Normal)
	})
}

// TestADeadShardOfACluster kills a primary of a real cluster and its replica.
func TestADeadShardOfACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for _, node := range cluster.Nodes {
		node.Must("CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	inner, err := limitstore.Open(t.Context(), redis.Config{Address: cluster.URL(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s, err := failover.New(inner, failover.Config{Log: quiet, Shards: inner, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := sluice.New(s)
	entities := map[int][]string{}
	for i := range 300 {
		entity := fmt.Sprint("customer", i)
		shard := inner.ShardOf(demand(entity).Key)
		entities[shard] = append(entities[shard], entity)
	}
	if len(entities) != 3 {
		t.Fatalf("%d shards, want 3", len(entities))
	}
	const dead = 0 // the shard of the first slot
	primary := cluster.Owner("sluice:1:{|" + entities[dead][0] + "|api}")
	_, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range cluster.Nodes {
		if role, err := node.Do("ROLE"); err == nil && strings.HasPrefix(role, "slave") && strings.Contains(role, port) {
			node.Kill()
		}
	}
	primary.Kill()
	for _, entity := range entities[dead][:20] {
		if d := decide(t, l, "enterprise", demand(entity)); d.Source == sluice.FromStore {
			t.Fatalf("%s was decided by a dead shard", entity)
		}
	}
	wantState(t, s, failover.Open)
	for shard, entities := range entities {
		for _, entity := range entities {
			if d := decide(t, l, "enterprise", demand(entity)); (d.Source == sluice.FromStore) != (shard != dead) {
				t.Fatalf("%s of shard %d: %s", entity, shard, d.Source)
			}
		}
	}
	if n := s.Stats().Entered[failover.Open]; n != 1 {
		t.Errorf("%d breakers opened, want 1", n)
	}
	primary.Restart()
	redistest.Eventually(t, time.Minute, "the shard is asked again", func() bool {
		return decide(t, l, "enterprise", demand(entities[dead][0])).Source == sluice.FromStore
	})
}
