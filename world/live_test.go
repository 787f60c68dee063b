package world

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	postgrestest.Main(m)
}

// atOnce is how many worlds are played beside each other on a real store.
const atOnce = 6

// nextSeed gives each run other worlds, so that go test -count plays more.
var nextSeed atomic.Uint64

// live lets the callers of a few worlds loose on a real store, while the
// proxies in front of it misbehave.
func live(t *testing.T, proxies []*faultproxy.Proxy, open func() (sluice.Store, error)) {
	t.Parallel()
	var plans [atOnce]Plan
	var clients [atOnce][]sluice.Store
	for n := range plans {
		plans[n] = NewPlan(nextSeed.Add(1))
		for range plans[n].Nodes { // before there is trouble
			s, err := open()
			if err != nil {
				t.Fatal(err)
			}
			clients[n] = append(clients[n], s)
		}
	}
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		trouble(proxies, stop)
	}()
	var told, degraded atomic.Int64
	var all sync.WaitGroup
	for n := range plans {
		all.Go(func() {
			r := Live(plans[n], clients[n])
			told.Add(int64(r.Told))
			degraded.Add(int64(r.Degraded))
			for _, f := range r.Failures {
				t.Errorf("seed %d: %s", plans[n].Seed, f)
			}
		})
	}
	all.Wait()
	close(stop)
	<-over
	t.Logf("%d answers, %d of them without the store", told.Load(), degraded.Load())
}

// trouble delays, loses and cuts in turn, with good times in between.
func trouble(proxies []*faultproxy.Proxy, stop <-chan struct{}) {
	wait := func(d time.Duration) bool {
		select {
		case <-stop:
			return false
		case <-time.After(d):
			return true
		}
	}
	for n := 0; ; n++ {
		p := proxies[n%len(proxies)]
		if !wait(300 * time.Millisecond) {
			return
		}
		switch n % 3 {
		case 0:
			p.DelayAnswers(20 * time.Millisecond)
			wait(300 * time.Millisecond)
			p.DelayAnswers(0)
		case 1:
			p.Cut()
		case 2:
			p.LoseAnswers(true)
			wait(150 * time.Millisecond)
			p.LoseAnswers(false)
			p.Cut()
		}
	}
}
