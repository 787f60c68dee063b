package limitstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/storetest"
)

// patience is for what takes a second or two on a machine that is not busy.
const patience = 60 * time.Second

// pace keeps the load from taking the whole machine.
const pace = time.Millisecond

func demand(entity, limit string) sluice.Demand {
	return sluice.Demand{Key: sluice.Key{Entity: entity, Resource: "r", Limit: "rps"}, Limit: sluice.MustParse(limit)}
}

// recordOf is where the buckets of demand(entity, …) are.
func recordOf(entity string) string { return "sluice:1:{|" + entity + "|r}" }

// load is some callers that take from one bucket all the time.
type load struct {
	demand  sluice.Demand
	passed  atomic.Int64
	refused atomic.Int64
	stop    chan struct{}
	wg      sync.WaitGroup

	mu      sync.Mutex
	history storetest.History
	unknown int
	errors  map[string]int // how often which message came
}

func startLoad(tb testing.TB, l *sluice.Limiter, d sluice.Demand) *load {
	tb.Helper()
	w := &load{demand: d, stop: make(chan struct{}), errors: map[string]int{}}
	for range 6 {
		w.wg.Go(func() {
			for {
				select {
				case <-w.stop:
					return
				case <-time.After(pace):
				}
				w.take(tb, l)
			}
		})
	}
	tb.Cleanup(w.end)
	return w
}

func (w *load) take(tb testing.TB, l *sluice.Limiter) {
	start := time.Now().UnixMicro()
	d, err := l.Take(context.Background(), w.demand)
	end := time.Now().UnixMicro() + 1
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil && d.Allowed:
		w.history.Add(start, end, d.Results[0].Consumed.Thousandths())
		w.passed.Add(1)
	case err == nil:
		w.refused.Add(1)
	default:
		w.errors[err.Error()]++
		switch {
		case errors.Is(err, sluice.ErrUnknown):
			w.unknown++
		case !errors.Is(err, sluice.ErrUnavailable) && w.errors[err.Error()] == 1:
			tb.Errorf("neither unknown nor unavailable: %v", err)
		}
	}
}

// end ends the load, after which its fields can be read.
func (w *load) end() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.wg.Wait()
}

// resumes waits until a take passes, and answers how long that took.
func (w *load) resumes(tb testing.TB) time.Duration {
	tb.Helper()
	before := w.passed.Load()
	return redistest.Eventually(tb, patience, "a take passes again", func() bool { return w.passed.Load() > before })
}

// goesOn waits until a good number of takes have passed: more than the burst of
// a busy limit. That one is then felt, too, however slow the machine is.
func (w *load) goesOn(tb testing.TB) {
	tb.Helper()
	passed, refused := w.passed.Load(), w.refused.Load()
	felt := w.demand.Limit != sluice.MustParse(busy)
	redistest.Eventually(tb, patience, "takes pass again", func() bool {
		return w.passed.Load() >= passed+25 && (felt || w.refused.Load() > refused)
	})
}

// busy is a limit that the load reaches.
const busy = "50/s burst 20"

// over is by how much the history is over the bound in its worst interval.
func (w *load) over(tb testing.TB) int64 {
	tb.Helper()
	r, err := w.history.Report(w.demand.Limit)
	if err != nil {
		tb.Fatal(err)
	}
	return max(0, r.Worst.Net-r.Worst.Bound)
}

// slow is a limit that the load does not reach, and of which next to nothing
// comes back during a test: 2 tokens in a minute.
const slow = "100000/30d"

// lost is how many takes from a slow bucket have passed that the store does
// not know of; or a few less, if it knows of some with an unknown outcome. That
// it knows of more than were asked for is an error.
func (w *load) lost(tb testing.TB, address string) int64 {
	tb.Helper()
	passed := w.passed.Load()
	// Rounded up, because of what has come back.
	consumed := sluice.Thousandths(w.demand.Limit.Capacity().Thousandths() - remaining(tb, address, w.demand) + sluice.Token - 1).Whole()
	if consumed > passed+int64(w.unknown) {
		tb.Errorf("%d consumed, but only %d passed and %d may have", consumed, passed, w.unknown)
	}
	return max(0, passed-consumed)
}

// report says what went wrong during the load.
func (w *load) report(tb testing.TB) {
	tb.Logf("%d passed, %d refused, %d unknown", w.passed.Load(), w.refused.Load(), w.unknown)
	for _, text := range slices.Sorted(maps.Keys(w.errors)) {
		tb.Logf("%5d × %s", w.errors[text], text)
	}
}

// mustNotFail reports every error of the load.
func (w *load) mustNotFail(tb testing.TB) {
	tb.Helper()
	for text, n := range w.errors {
		tb.Errorf("%d × %s", n, text)
	}
}

// remaining looks at a bucket through a client of its own.
func remaining(tb testing.TB, address string, d sluice.Demand) int64 {
	tb.Helper()
	s := open(tb, redis.Config{Address: address})
	defer s.Close()
	peek, err := sluice.New(s).Peek(context.Background(), d)
	if err != nil {
		tb.Fatal(err)
	}
	return peek.Results[0].Remaining.Thousandths()
}

// works waits until a limiter gets answers on all its connections.
func works(tb testing.TB, l *sluice.Limiter) {
	tb.Helper()
	redistest.Eventually(tb, patience, "the store answers", func() bool {
		for i := range 32 { // the client has several connections, and chooses by key
			if _, err := l.Take(context.Background(), demand(fmt.Sprint("probe ", i), "1000000/s")); err != nil {
				return false
			}
		}
		return true
	})
}
