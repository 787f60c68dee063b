package limitstore_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/storetest"
)

// TestSentinelFailover kills the primary under load. Replication is
// asynchronous, so the new primary may not know of the last takes: what is
// lost that way can be taken again, and that is all.
func TestSentinelFailover(t *testing.T) {
	trio := redistest.StartSentinels(t)
	s := open(t, redis.Config{Address: trio.URL(), Timeout: time.Second})
	l := sluice.New(s)
	w := startLoad(t, l, demand("hot", busy))
	counted := startLoad(t, l, demand("counted", slow))
	w.goesOn(t)

	primary := trio.Primary()
	failovers := trio.Failovers()
	primary.Kill()
	killed := time.Now().UnixMicro()
	t.Logf("takes passed again %s after the primary was killed", w.resumes(t).Round(time.Millisecond))
	w.goesOn(t)
	counted.goesOn(t)
	w.end()
	counted.end()
	w.report(t)

	redistest.Eventually(t, patience, "all Sentinels know the new primary", func() bool { return trio.Primary() != primary })
	failovers = trio.Failovers() - failovers
	over := w.over(t)
	t.Logf("at least %d of %d takes were lost", counted.lost(t, trio.URL()), counted.passed.Load())
	t.Logf("%s tokens over the bound because of %d failover", sluice.Thousandths(over), failovers)
	if over > int64(failovers)*w.demand.Limit.Capacity().Thousandths() {
		t.Errorf("%s over the bound: a failover cannot lose more than the capacity", sluice.Thousandths(over))
	}
	if failovers > 1 {
		return // the lives are more than two
	}
	var lives [2]storetest.History
	for _, e := range w.history.Events {
		switch {
		case e.Return < killed:
			lives[0].Events = append(lives[0].Events, e)
		case e.Call > killed:
			lives[1].Events = append(lives[1].Events, e)
		}
	}
	for i := range lives {
		if err := lives[i].Check(w.demand.Limit); err != nil {
			t.Errorf("primary %d: %v", i+1, err)
		}
	}
}
