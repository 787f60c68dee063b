package envoy

import (
	"math"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// stats are the counts of one limit, by the names they have in
// envoyproxy/ratelimit.
type stats struct {
	totalHits, overLimit, nearLimit, withinLimit, shadowMode atomic.Uint64
}

// add counts hits that left a counter at after.
func (s *stats) add(hits, after, limit uint64, near float32, over, shadow bool) {
	s.totalHits.Add(hits)
	before := after - min(hits, after)
	threshold := uint64(math.Floor(float64(float32(limit) * near)))
	if !over {
		if after > threshold {
			s.nearLimit.Add(min(hits, after-threshold))
		}
		s.withinLimit.Add(hits)
		return
	}
	excess := hits
	if before < limit { // a part of the hits was within
		excess = after - limit
		s.nearLimit.Add(limit - min(max(threshold, before), limit))
	}
	s.overLimit.Add(excess)
	if shadow {
		s.shadowMode.Add(excess)
	}
}

// maxStats bounds how many keys that depend on requests are counted apart.
// Further ones count for their rule.
const maxStats = 10_000

// registry has the statistics of a service. Those of a rule outlive a reload
// if the rule does.
type registry struct {
	rules atomic.Pointer[map[string]*stats] // of the rules in force, by their place in the files
	seen  sync.Map                          // key of a request, as string, to *stats
	count atomic.Int64                      // of seen

	configOK, configErrors     atomic.Uint64
	storeErrors, serviceErrors atomic.Uint64
	globalShadow, noDomain     atomic.Uint64
}

// of are the statistics of a key that depends on the request, or instead.
func (r *registry) of(key string, instead *stats) *stats {
	if s, ok := r.seen.Load(key); ok {
		return s.(*stats)
	}
	if r.count.Load() >= maxStats {
		return instead
	}
	s, there := r.seen.LoadOrStore(key, &stats{})
	if !there {
		r.count.Add(1)
	}
	return s.(*stats)
}

const metricPrefix = "ratelimit_service_"

// Describe sends nothing, because which limits there are changes with the
// files.
func (r *registry) Describe(chan<- *prometheus.Desc) {}

var limitMetrics = []struct {
	desc  *prometheus.Desc
	value func(*stats) *atomic.Uint64
}{
	{limitDesc("total_hits", "Hits on a limit."), func(s *stats) *atomic.Uint64 { return &s.totalHits }},
	{limitDesc("over_limit", "Hits above a limit."), func(s *stats) *atomic.Uint64 { return &s.overLimit }},
	{limitDesc("near_limit", "Hits above NEAR_LIMIT_RATIO of a limit."), func(s *stats) *atomic.Uint64 { return &s.nearLimit }},
	{limitDesc("within_limit", "Hits within a limit."), func(s *stats) *atomic.Uint64 { return &s.withinLimit }},
	{limitDesc("shadow_mode", "Hits above a limit that is in shadow mode."), func(s *stats) *atomic.Uint64 { return &s.shadowMode }},
}

func limitDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(metricPrefix+"rate_limit_"+name, help, []string{"domain", "key1", "key2"}, nil)
}

func serviceDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(metricPrefix+name, help, labels, nil)
}

var (
	errorsDesc       = serviceDesc("should_rate_limit_error", "Calls that got no decision.", "err_type")
	configOKDesc     = serviceDesc("config_load_success", "Times the files were loaded.")
	configErrorsDesc = serviceDesc("config_load_error", "Times the files could not be loaded.")
	globalShadowDesc = serviceDesc("global_shadow_mode", "Requests above a limit that SHADOW_MODE let pass.")
	noDomainDesc     = serviceDesc("domain_not_found", "Descriptors of a domain that no file has.")
)

// Collect sends all counts, under the names and labels that
// envoyproxy/ratelimit gives them for Prometheus: domain and the first two
// levels, in which deeper ones are added up.
func (r *registry) Collect(out chan<- prometheus.Metric) {
	sums := map[[3]string]*[5]uint64{}
	add := func(key string, s *stats) {
		parts := strings.Split(sanitize(key), ".")
		var labels [3]string
		copy(labels[:], parts)
		sum := sums[labels]
		if sum == nil {
			sum = &[5]uint64{}
			sums[labels] = sum
		}
		for i := range limitMetrics {
			sum[i] += limitMetrics[i].value(s).Load()
		}
	}
	if rules := r.rules.Load(); rules != nil {
		for key, s := range *rules {
			add(key, s)
		}
	}
	r.seen.Range(func(key, s any) bool {
		add(key.(string), s.(*stats))
		return true
	})
	for labels, sum := range sums {
		for i := range limitMetrics {
			out <- counter(limitMetrics[i].desc, sum[i], labels[:]...)
		}
	}
	out <- counter(errorsDesc, r.storeErrors.Load(), "redis_error")
	out <- counter(errorsDesc, r.serviceErrors.Load(), "service_error")
	out <- counter(configOKDesc, r.configOK.Load())
	out <- counter(configErrorsDesc, r.configErrors.Load())
	out <- counter(globalShadowDesc, r.globalShadow.Load())
	out <- counter(noDomainDesc, r.noDomain.Load())
}

func counter(desc *prometheus.Desc, value uint64, labels ...string) prometheus.Metric {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "\uFFFD")
	}
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
}

var address = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// sanitize writes a key as envoyproxy/ratelimit does, where dots separate.
func sanitize(key string) string {
	key = strings.NewReplacer(":", "_", "|", "_").Replace(key)
	return address.ReplaceAllStringFunc(key, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}
