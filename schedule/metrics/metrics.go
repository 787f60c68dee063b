// Package metrics shows what a scheduler does to Prometheus. It is apart from
// package schedule so that those who keep slots need not have it.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/schedule"
)

// Collector is a [prometheus.Collector] of a scheduler's counts.
type Collector struct {
	stats *schedule.Stats

	duration, contention, depth, hits, misses, failures *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// New is a collector of the counts of s, to be registered once.
func New(s *schedule.Scheduler) *Collector {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &Collector{
		stats:      s.Stats(),
		duration:   desc("rate_limiter_slot_assignment_duration_seconds", "How long it took to assign an event, or a batch of them."),
		contention: desc("rate_limiter_window_contention_total", "Windows that were skipped because another writer was using them."),
		depth:      desc("rate_limiter_window_lookahead_depth", "Windows from the first that suited an event to the one it got."),
		hits:       desc("rate_limiter_config_cache_hits_total", "Plans that were at hand."),
		misses:     desc("rate_limiter_config_cache_misses_total", "Plans that had to be read."),
		failures:   desc("rate_limiter_slot_assignment_failures_total", "Events for which no window within reach had room."),
	}
}

// Describe tells the names.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.duration, c.contention, c.depth, c.hits, c.misses, c.failures} {
		out <- d
	}
}

// Collect tells the counts.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.stats.Snapshot()
	counter := func(d *prometheus.Desc, n int64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
	histogram := func(d *prometheus.Desc, h schedule.Distribution) {
		buckets := make(map[float64]uint64, len(h.Bounds))
		for i, bound := range h.Bounds {
			buckets[bound] = h.Counts[i]
		}
		out <- prometheus.MustNewConstHistogram(d, h.Count, h.Sum, buckets)
	}
	histogram(c.duration, s.Duration)
	counter(c.contention, s.Contention)
	histogram(c.depth, s.Depth)
	counter(c.hits, s.CacheHits)
	counter(c.misses, s.CacheMisses)
	counter(c.failures, s.Failures)
}
