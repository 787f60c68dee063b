package failover_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

var (
	outageLength = flag.Duration("outage.length", 0,
		"how long Redis is away in TestOutageTimeline, with the default settings of failover; 0 means a second, with short ones")
	outagePicture = flag.String("outage.picture", "", "the file that TestOutageTimeline draws; none means a temporary one")
)

// patient is a time-out that no answer misses because the machine is busy.
const patient = 5 * time.Second

// TestOutageTimeline kills a Redis under 5 000 takes a second and starts it
// again. Nobody does anything else, no caller gets an error, and what they see
// meanwhile is written down and drawn.
//
// It has everything a server has: tokens held ahead of need over failover over
// Redis. Half of the customers have limits of which tokens are held, half have
// limits that are too small for it, so that the store is asked all the time.
func TestOutageTimeline(t *testing.T) {
	config := failover.Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	calm, away := 10*time.Second, *outageLength
	if away == 0 {
		short := failover.Phase{For: 300 * time.Millisecond}
		config.Timeout, config.Backoff, config.MaxBackoff = patient, 300*time.Millisecond, 600*time.Millisecond
		config.Testing, config.Partial, config.Stabilizing = short, short, short
		calm, away = time.Second, time.Second
	}
	server := redistest.Start(t)
	inner, err := limitstore.Open(context.Background(), redis.Config{Address: server.URL(), Log: quiet, Timeout: config.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	store, err := failover.New(inner, config)
	if err != nil {
		t.Fatal(err)
	}
	ahead, err := advance.New(store, advance.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ahead.Close(); err != nil {
			t.Error(err)
		}
	})

	line := newTimeline(2*calm+away+20*time.Minute, store.State)
	traffic := startTraffic(ahead, line)
	// see waits for some time, and then for so many answers of the kinds: on a
	// busy machine time alone shows nothing.
	see := func(at time.Duration, kinds ...kind) {
		t.Helper()
		before := line.count(kinds...)
		time.Sleep(at)
		redistest.Eventually(t, 5*time.Minute, fmt.Sprint("answers of the kinds ", kinds), func() bool { return line.count(kinds...) > before+500 })
	}
	see(calm, exact)
	line.killed = time.Since(line.start)
	server.Kill()
	see(away, degraded, denied)
	server.Restart()
	line.back = time.Since(line.start)
	redistest.Eventually(t, 5*time.Minute, "full recovery", func() bool { return store.State() == failover.Normal })
	line.normal = time.Since(line.start)
	line.recovered.Store(true)
	see(calm, exact)
	traffic.end()
	line.end()

	if _, err := line.WriteTo(t.Output()); err != nil {
		t.Fatal(err)
	}
	file := *outagePicture
	if file == "" {
		file = filepath.Join(t.TempDir(), "outage.svg")
	}
	if err := os.WriteFile(file, line.picture(), 0o644); err != nil {
		t.Fatal(err)
	}
	first := time.Duration(line.local.Load()) - line.killed
	t.Logf("%d takes, %.0f a second; first local answer %s after the kill, slowest answer %s, normal again %s after Redis was back",
		line.total(), float64(line.total())/line.length.Seconds(), first.Round(time.Millisecond),
		time.Duration(line.slowest.Load()).Round(time.Millisecond), (line.normal - line.back).Round(time.Millisecond))
	if n := line.count(errored); n > 0 {
		t.Errorf("%d callers got an error, the first %v", n, line.firstError.Load())
	}
	if n := line.strays.Load(); n > 0 && *outageLength == 0 {
		t.Errorf("%d takes that began after the recovery were not decided by the store", n)
	}
	st := store.Stats()
	for _, s := range []failover.State{failover.Open, failover.HalfOpen, failover.Testing, failover.Partial, failover.Stabilizing, failover.Normal} {
		if st.Entered[s] == 0 {
			t.Errorf("it was never %s: %v", s, st.Entered)
		}
	}
}

// traffic is callers that take at an even pace, whatever the answers.
type traffic struct {
	stop    atomic.Bool
	callers sync.WaitGroup
}

const (
	trafficCallers   = 500                    // so many that those who wait for an answer are few
	trafficPace      = 100 * time.Millisecond // of each
	trafficCustomers = 400
)

func startTraffic(store sluice.Store, line *timeline) *traffic {
	tr := &traffic{}
	l := sluice.New(store)
	limits := []sluice.Limit{sluice.MustParse("1000/s"), sluice.MustParse("30/s")}
	for caller := range trafficCallers {
		tr.callers.Go(func() {
			var d sluice.Decision
			time.Sleep(trafficPace * time.Duration(caller) / trafficCallers) // evenly
			pace := time.NewTicker(trafficPace)
			defer pace.Stop()
			// The step is even, so that a caller has one kind of limit.
			for n := caller; !tr.stop.Load(); n += trafficCallers + 2 {
				customer := n % trafficCustomers
				take := sluice.Take{Tier: "pro", Demands: []sluice.Demand{{
					Key:   sluice.Key{Entity: fmt.Sprint("customer-", customer), Limit: "rate"},
					Limit: limits[customer%len(limits)],
				}}}
				called, recovered := time.Now(), line.recovered.Load()
				err := l.Decide(context.Background(), &take, &d)
				line.note(&d, err, time.Since(called), recovered)
				<-pace.C
			}
		})
	}
	return tr
}

func (tr *traffic) end() {
	tr.stop.Store(true)
	tr.callers.Wait()
}
