package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/schedule"
)

// slots shows counts, and distributions beside them.
type slots struct {
	prometheus.Collector // of the counts

	stats           *schedule.Stats
	duration, depth *prometheus.Desc
}

// Slots shows what a scheduler does.
func Slots(s *schedule.Scheduler) prometheus.Collector {
	stats := s.Stats()
	return &slots{
		Collector: figures(func(w *sheet) {
			st := stats.Snapshot()
			add(w, "rate_limiter_window_contention_total", "Windows that were skipped because another writer was using them.", st.Contention)
			add(w, "rate_limiter_config_cache_hits_total", "Plans that were at hand.", st.CacheHits)
			add(w, "rate_limiter_config_cache_misses_total", "Plans that had to be read.", st.CacheMisses)
			add(w, "rate_limiter_slot_assignment_failures_total", "Events for which no window within reach had room.", st.Failures)
			add(w, "rate_limiter_slots_leaked", "Slots that were assigned and never started, when last looked for; up to 1000 of a plan.", st.Leaked)
			add(w, "rate_limiter_slots_broken", "Dispatchers that wait because what their work calls is down.", st.Broken)
			add(w, "rate_limiter_slots_abandoned_total", "Attempts that timed out or were ended without an answer.", st.Abandoned)
		}),
		stats:    stats,
		duration: prometheus.NewDesc("rate_limiter_slot_assignment_duration_seconds", "How long it took to assign an event, or a batch of them.", nil, nil),
		depth:    prometheus.NewDesc("rate_limiter_window_lookahead_depth", "Windows from the first that suited an event to the one it got.", nil, nil),
	}
}

func (s *slots) Describe(out chan<- *prometheus.Desc) {
	s.Collector.Describe(out)
	out <- s.duration
	out <- s.depth
}

func (s *slots) Collect(out chan<- prometheus.Metric) {
	s.Collector.Collect(out)
	st := s.stats.Snapshot()
	for desc, d := range map[*prometheus.Desc]schedule.Distribution{s.duration: st.Duration, s.depth: st.Depth} {
		buckets := make(map[float64]uint64, len(d.Bounds))
		for i, bound := range d.Bounds {
			buckets[bound] = d.Counts[i]
		}
		out <- prometheus.MustNewConstHistogram(desc, d.Count, d.Sum, buckets)
	}
}
