package failover_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// outage is a limiter on a real Redis under load, with what callers see.
type outage struct {
	start    time.Time
	failover *failover.Store
	stop     atomic.Bool
	callers  sync.WaitGroup

	bySource [5]atomic.Int64
	errors   atomic.Int64
	slowest  atomic.Int64
	admitted []atomic.Int64
}

const (
	outageTimeout  = time.Second // which a server that hangs lets pass
	outageEntities = 200
)

func startOutage(t *testing.T, server *redistest.Server) *outage {
	t.Helper()
	inner, err := limitstore.Open(context.Background(), redis.Config{Address: server.URL(), Log: quiet, Timeout: outageTimeout})
	if err != nil {
		t.Fatal(err)
	}
	o := &outage{start: time.Now(), admitted: make([]atomic.Int64, outageEntities)}
	o.failover, err = failover.New(inner, failover.Config{
		Timeout: outageTimeout, Backoff: 300 * time.Millisecond, MaxBackoff: 600 * time.Millisecond,
		Testing:     failover.Phase{For: 300 * time.Millisecond},
		Partial:     failover.Phase{For: 300 * time.Millisecond},
		Stabilizing: failover.Phase{For: 300 * time.Millisecond},
		Log:         slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for caller := range 32 {
		o.callers.Go(func() { o.load(t, caller) })
	}
	t.Cleanup(func() {
		o.stop.Store(true)
		o.callers.Wait()
		if err := o.failover.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func (o *outage) load(t *testing.T, caller int) {
	l := sluice.New(o.failover)
	take := sluice.Take{Tier: "pro", Demands: []sluice.Demand{demand("")}}
	var d sluice.Decision
	pace := time.NewTicker(8 * time.Millisecond)
	defer pace.Stop()
	for n := caller; !o.stop.Load(); n += 7 {
		entity := n % outageEntities
		take.Demands[0].Key.Entity = fmt.Sprint("customer-", entity)
		start := time.Now()
		err := l.Decide(context.Background(), &take, &d)
		took := int64(time.Since(start))
		for slowest := o.slowest.Load(); took > slowest && !o.slowest.CompareAndSwap(slowest, took); {
			slowest = o.slowest.Load()
		}
		if err != nil {
			if o.errors.Add(1) == 1 {
				t.Errorf("a caller got an error: %v", err)
			}
			continue
		}
		o.bySource[d.Source].Add(1)
		if d.Source >= sluice.Degraded {
			if d.Allowed {
				o.admitted[entity].Add(1)
			}
		}
		<-pace.C
	}
}

// through lets the store go away and come back, and checks what is seen.
func (o *outage) through(t *testing.T, goAway, comeBack func()) {
	t.Helper()
	wait := func(what string, ok func() bool) time.Duration {
		t.Helper()
		return redistest.Eventually(t, 2*time.Minute, what, ok)
	}
	answers := func(source sluice.Source, n int64) {
		t.Helper()
		before := o.bySource[source].Load()
		wait(fmt.Sprint(n, " answers from ", source), func() bool { return o.bySource[source].Load() > before+n })
	}
	answers(sluice.FromStore, 2000)
	goAway()
	wait("an open breaker", func() bool { return o.failover.State() == failover.Open })
	wait("a caller's try that fails", func() bool { return o.failover.Stats().Entered[failover.Open] >= 2 })
	answers(sluice.Degraded, 1000)

	comeBack()
	recovered := wait("full recovery", func() bool { return o.failover.State() == failover.Normal })
	answers(sluice.FromStore, 1000)
	o.stop.Store(true)
	o.callers.Wait()

	st := o.failover.Stats()
	t.Logf("slowest answer %s, back to normal after %s; %d exact, %d degraded, %d unknown answers",
		time.Duration(o.slowest.Load()).Round(time.Millisecond), recovered.Round(time.Millisecond),
		o.bySource[sluice.FromStore].Load(), o.bySource[sluice.Degraded].Load(), o.bySource[sluice.Unknown].Load())
	t.Logf("times in states: %v; entered: %v", st.Spent, st.Entered)
	if st.Recoveries == 0 || st.Entered[failover.Testing] == 0 {
		t.Errorf("stats %+v", st)
	}
	// 50 at once and 50 a minute, for as long as it lasted.
	most := 50 + int64(50*time.Since(o.start).Minutes()+1)
	for i := range o.admitted {
		if n := o.admitted[i].Load(); n > most {
			t.Errorf("entity %d was admitted %d times locally, want at most %d", i, n, most)
		}
	}
}

func TestRedisKilledUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	startOutage(t, server).through(t, server.Kill, server.Restart)
}

func TestRedisHangsUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	o := startOutage(t, server)
	o.through(t, server.Pause, server.Resume)
	if n := o.bySource[sluice.Unknown].Load(); n == 0 {
		t.Error("no answer was marked unknown")
	}
}
