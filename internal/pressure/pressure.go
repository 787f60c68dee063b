// Package pressure watches how much memory a process uses, and has others give
// some back before there is none left.
package pressure

import (
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/background"
	"github.com/sluice-go/sluice/internal/backoff"
)

const (
	// Pressure begins at high and ends at low, as shares of the limit. The
	// collector works to keep live memory and garbage together below soft.
	high, low, soft = 0.8, 0.7, 0.9

	// lookEvery is how often memory is looked at, and relieveEvery how often
	// memory is given back while pressure lasts.
	lookEvery    = time.Second
	relieveEvery = 10 * time.Second
)

// Relief gives memory back, and returns how many things it evicted. It is called
// when pressure begins, every 10 s while it lasts, and with false when it is over.
type Relief func(pressed bool) (evicted int64)

// Gauge knows how much memory the process uses, and how much it may use.
type Gauge struct {
	limit   int64
	live    func() int64
	reliefs map[string]Relief
	log     *slog.Logger
	work    *background.Work

	mu      sync.Mutex
	evicted map[string]int64
	begun   int64
	pressed atomic.Bool
}

// Stats are the figures of a [Gauge].
type Stats struct {
	Limit, Live int64            // bytes
	Pressed     bool             // now
	Begun       int64            // times that pressure began
	Evicted     map[string]int64 // by what
}

// Watch begins to watch. The reliefs are called one after the other, by name for
// the figures. live returns the memory in use, in bytes; nil means [Live]. The
// caller closes the gauge before what the reliefs are about.
func Watch(limit int64, live func() int64, reliefs map[string]Relief, log *slog.Logger) *Gauge {
	if live == nil {
		live = Live
	}
	g := &Gauge{limit: limit, live: live, reliefs: reliefs, log: log, work: background.New(), evicted: map[string]int64{}}
	g.work.Go(g.watch)
	return g
}

// Close ends the watch.
func (g *Gauge) Close() error { return g.work.Close() }

// Stats returns the present figures.
func (g *Gauge) Stats() Stats {
	st := Stats{Limit: g.limit, Live: g.live(), Pressed: g.pressed.Load(), Evicted: map[string]int64{}}
	g.mu.Lock()
	defer g.mu.Unlock()
	st.Begun = g.begun
	for name := range g.reliefs {
		st.Evicted[name] = g.evicted[name]
	}
	return st
}

func (g *Gauge) watch() {
	var relieved time.Time
	for backoff.Sleep(g.work.Life(), lookEvery) {
		share := float64(g.live()) / float64(g.limit)
		switch pressed := g.pressed.Load(); {
		case !pressed && share >= high:
			g.pressed.Store(true)
			g.mu.Lock()
			g.begun++
			g.mu.Unlock()
			g.log.Warn("memory pressure begins", "percent", math.Round(100*share), "limit", g.limit)
		case pressed && share <= low:
			g.pressed.Store(false)
			g.relieve(false)
			g.log.Info("memory pressure is over", "percent", math.Round(100*share))
			continue
		case !pressed || time.Since(relieved) < relieveEvery:
			continue
		}
		g.relieve(true)
		runtime.GC() // or nobody knows how much it helped before the next collection
		relieved = time.Now()
	}
}

func (g *Gauge) relieve(pressed bool) {
	for name, relief := range g.reliefs {
		n := relief(pressed)
		g.mu.Lock()
		g.evicted[name] += n
		g.mu.Unlock()
	}
}

// Live returns the memory that the process cannot do without, in bytes: what the
// last collection found in use, and what is not the heap's.
func Live() int64 {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	live, total := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	for _, s := range samples[2:] {
		total -= s.Value.Uint64()
	}
	return int64(live + total)
}

// Limit returns how much memory the process may use: what is wanted if that is
// not 0, else the value of GOMEMLIMIT, else what the container allows, or 0 if
// nobody says. The collector is told, unless GOMEMLIMIT tells it.
func Limit(wanted int64) int64 {
	collector := debug.SetMemoryLimit(-1)
	told := collector != math.MaxInt64
	switch {
	case wanted == 0 && told:
		return collector
	case wanted == 0:
		wanted = container("/sys/fs/cgroup/memory.max")
	}
	if wanted > 0 && !told {
		debug.SetMemoryLimit(int64(soft * float64(wanted)))
	}
	return wanted
}

// container reads the limit of a control group; 0 if there is none.
func container(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil { // "max"
		return 0
	}
	return n
}
