package schedule

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Stats are counts since the scheduler was made. Package metrics
// shows them to Prometheus.
type Stats struct {
	cacheHits   atomic.Int64
	cacheMisses atomic.Int64
	contention  atomic.Int64
	failures    atomic.Int64
	slots       atomic.Int64 // swept, as the next two
	windows     atomic.Int64
	entries     atomic.Int64
	unswept     atomic.Int64
	broken      atomic.Int64
	abandoned   atomic.Int64
	durations   histogram
	depths      histogram

	mu     sync.Mutex
	leaked map[string]int64 // by namespace
}

// Snapshot is the state of Stats at one moment.
type Snapshot struct {
	CacheHits   int64 // plans that were at hand
	CacheMisses int64 // plans that had to be read
	Contention  int64 // windows skipped because somebody else was using them
	Failures    int64 // events for which no window had room

	Swept         Removed // by sweeping
	SweepFailures int64   // sweeps that ended before they were through
	Leaked        int64   // slots that were leaked when the scheduler last looked, up to 1000 of a plan

	Broken    int64 // dispatchers that wait because what they call is down
	Abandoned int64 // attempts that timed out, or were ended because the claim was lost: they may be received later

	Duration Distribution // of Assign and AssignBatch calls, in seconds
	Depth    Distribution // windows from the first that suits to the one assigned, of each event
}

// Distribution counts values up to bounds. Counts are cumulative.
type Distribution struct {
	Bounds []float64
	Counts []uint64
	Count  uint64
	Sum    float64
}

func newStats() *Stats {
	return &Stats{
		durations: histogram{bounds: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}},
		depths:    histogram{bounds: []float64{0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000}},
	}
}

// Snapshot reads all counts.
func (s *Stats) Snapshot() Snapshot {
	s.mu.Lock()
	leaked := int64(0)
	for _, n := range s.leaked {
		leaked += n
	}
	s.mu.Unlock()
	return Snapshot{
		CacheHits: s.cacheHits.Load(), CacheMisses: s.cacheMisses.Load(),
		Contention: s.contention.Load(), Failures: s.failures.Load(),
		Swept:         Removed{Slots: s.slots.Load(), Windows: s.windows.Load(), Audit: s.entries.Load()},
		SweepFailures: s.unswept.Load(), Leaked: leaked, Broken: s.broken.Load(), Abandoned: s.abandoned.Load(),
		Duration: s.durations.read(), Depth: s.depths.read(),
	}
}

// leaksIn notes how many slots of a namespace are leaked.
func (s *Stats) leaksIn(namespace string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.leaked, namespace); n > 0 {
		if s.leaked == nil {
			s.leaked = map[string]int64{}
		}
		s.leaked[namespace] = int64(n)
	}
}

func (s *Stats) swept(r Removed, failed bool) {
	s.slots.Add(r.Slots)
	s.windows.Add(r.Windows)
	s.entries.Add(r.Audit)
	if failed {
		s.unswept.Add(1)
	}
}

func (s *Stats) took(d time.Duration) { s.durations.add(d.Seconds()) }

type histogram struct {
	bounds []float64

	mu     sync.Mutex
	counts []uint64 // by bound, not cumulative; the last is for what is above all
	sum    float64
}

func (h *histogram) add(v float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counts == nil {
		h.counts = make([]uint64, len(h.bounds)+1)
	}
	h.counts[sort.SearchFloat64s(h.bounds, v)]++
	h.sum += v
}

func (h *histogram) read() Distribution {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := Distribution{Bounds: h.bounds, Counts: make([]uint64, len(h.bounds)), Sum: h.sum}
	for i, n := range h.counts {
		d.Count += n
		if i < len(d.Counts) {
			d.Counts[i] = d.Count
		}
	}
	return d
}
