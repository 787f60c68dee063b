package limitstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

// charged checks that each of the demands' buckets was charged once for each id.
func charged(t *testing.T, cluster *redistest.Cluster, demands []sluice.Demand, ids int64) {
	t.Helper()
	for _, d := range demands {
		used := (d.Limit.Capacity().Thousandths() - remaining(t, cluster.URL(), d) + sluice.Token - 1) / sluice.Token
		if used != ids {
			t.Errorf("%s: %d charges for %d ids", d.Key, sluice.Thousandths(used), sluice.Thousandths(ids))
		}
	}
}

// TestClusterRepeats loses the answer of one node while a take with an id goes
// over two of them, and repeats the take until it is answered. Each id is
// charged once in each bucket.
func TestClusterRepeats(t *testing.T) {
	cluster := redistest.StartCluster(t)
	proxies := cluster.Proxies()
	here, there := apart(t, cluster, "repeat")
	l := sluice.New(open(t, redis.Config{Address: cluster.URL(), Timeout: 300 * time.Millisecond}))
	ctx := context.Background()
	demands := []sluice.Demand{demand(here, slow), demand(there, slow)}
	const ids = 9
	unknown, first := 0, 0
	for i := range ids {
		take := sluice.Take{Demands: demands, ID: fmt.Sprint("repeated ", i)}
		entity := []string{here, there, "directory"}[i%3]
		key := recordOf(entity)
		if entity == "directory" {
			key = "sluice:1:id:{repeated%20" + fmt.Sprint(i) + "}"
		}
		p := proxies[cluster.Owner(key).Addr()]
		works(t, l)
		p.LoseAnswers(true)
		var d sluice.Decision
		err := l.Decide(ctx, &take, &d)
		if err == nil {
			t.Fatalf("%s: an answer that was lost: %+v", entity, d)
		}
		if errors.Is(err, sluice.ErrUnknown) {
			unknown++
		}
		p.Cut() // what has lost an answer would take the next one for it
		p.LoseAnswers(false)
		works(t, l)
		for range 3 {
			redistest.Eventually(t, patience, "the take is answered", func() bool { return l.Decide(ctx, &take, &d) == nil })
			if !d.Allowed {
				t.Fatalf("%s: refused: %+v", entity, d)
			}
			if !d.Repeated {
				first++
			}
		}
	}
	t.Logf("%d outcomes were unknown at first", unknown)
	if first != ids {
		t.Errorf("%d answers of %d ids were not marked as repeated", first, ids)
	}
	charged(t, cluster, demands, ids)
}

// TestClusterGivesUpAnywhere has callers give up at any moment of a take with an
// id over two slots, and repeat it. What was sent still arrives, maybe after the
// repetition has begun. Each id is charged once in each bucket all the same.
func TestClusterGivesUpAnywhere(t *testing.T) {
	cluster := redistest.StartCluster(t)
	l := sluice.New(open(t, redis.Config{Address: cluster.URL()}))
	here, there := apart(t, cluster, "anywhere")
	demands := []sluice.Demand{demand(here, slow), demand(there, slow)}
	const ids = 150
	gaveUp := 0
	for i := range ids {
		take := sluice.Take{Demands: demands, ID: fmt.Sprint("anywhere ", i), Lease: i%2 == 0}
		var d sluice.Decision
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*10*time.Microsecond)
		if l.Decide(ctx, &take, &d) != nil {
			gaveUp++
		}
		cancel()
		redistest.Eventually(t, patience, "the take is answered", func() bool { return l.Decide(context.Background(), &take, &d) == nil })
		if !d.Allowed {
			t.Fatalf("refused: %+v", d)
		}
	}
	t.Logf("%d of %d gave up", gaveUp, ids)
	charged(t, cluster, demands, ids)
}

// TestClusterOneIDLittleRoom has several callers of each id take at once from two
// slots, of which one has room for some of the ids only, and give up at any
// moment. In the end each bucket has been charged once for each id that passed.
func TestClusterOneIDLittleRoom(t *testing.T) {
	cluster := redistest.StartCluster(t)
	l := sluice.New(open(t, redis.Config{Address: cluster.URL()}))
	here, there := apart(t, cluster, "little")
	demands := []sluice.Demand{demand(here, "1000/30d"), demand(there, "30/30d")}
	const ids = 60
	take := func(i int) sluice.Take {
		order := slices.Clone(demands)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		return sluice.Take{Demands: order, ID: fmt.Sprint("little ", i), Lease: i%3 == 0}
	}
	var wg sync.WaitGroup
	for i := range ids {
		for caller := range 4 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(caller*i)*50*time.Microsecond)
				defer cancel()
				var d sluice.Decision
				one := take(i)
				l.Decide(ctx, &one, &d) //nolint:errcheck // whatever comes of it
			})
		}
	}
	wg.Wait()
	passed := int64(0)
	for i := range ids {
		var d sluice.Decision
		one := take(i)
		redistest.Eventually(t, patience, "the take is answered", func() bool { return l.Decide(context.Background(), &one, &d) == nil })
		if d.Allowed {
			passed++
		}
	}
	t.Logf("%d of %d ids passed", sluice.Thousandths(passed), ids)
	if passed != 30 {
		t.Errorf("%d ids passed where 30 may", sluice.Thousandths(passed))
	}
	charged(t, cluster, demands, passed)
}
