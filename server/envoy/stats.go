package envoy

import (
	"math"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
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

// limitCounts are the counts of a limit, by the names they have for Prometheus.
var limitCounts = []struct {
	name, help string
	value      func(*stats) *atomic.Uint64
}{
	{"total_hits", "Hits on a limit.", func(s *stats) *atomic.Uint64 { return &s.totalHits }},
	{"over_limit", "Hits above a limit.", func(s *stats) *atomic.Uint64 { return &s.overLimit }},
	{"near_limit", "Hits above NEAR_LIMIT_RATIO of a limit.", func(s *stats) *atomic.Uint64 { return &s.nearLimit }},
	{"within_limit", "Hits within a limit.", func(s *stats) *atomic.Uint64 { return &s.withinLimit }},
	{"shadow_mode", "Hits above a limit that is in shadow mode.", func(s *stats) *atomic.Uint64 { return &s.shadowMode }},
}

// Counters calls add with each of the service's counts, under the names and
// labels that envoyproxy/ratelimit gives them for Prometheus: domain and the
// first two levels, in which deeper ones are added up.
func (s *Service) Counters(add func(name, help string, labels, values []string, n uint64)) {
	const prefix = "ratelimit_service_"
	r := &s.counts
	sums := map[[3]string]*[5]uint64{}
	sum := func(key string, s *stats) {
		var values [3]string
		copy(values[:], strings.Split(sanitize(key), "."))
		if sums[values] == nil {
			sums[values] = &[5]uint64{}
		}
		for i := range limitCounts {
			sums[values][i] += limitCounts[i].value(s).Load()
		}
	}
	if rules := r.rules.Load(); rules != nil {
		for key, s := range *rules {
			sum(key, s)
		}
	}
	r.seen.Range(func(key, s any) bool {
		sum(key.(string), s.(*stats))
		return true
	})
	labels := []string{"domain", "key1", "key2"}
	for values, n := range sums {
		for i, c := range limitCounts {
			add(prefix+"rate_limit_"+c.name, c.help, labels, values[:], n[i])
		}
	}
	failed := func(kind string, n uint64) {
		add(prefix+"should_rate_limit_error", "Calls that got no decision.", []string{"err_type"}, []string{kind}, n)
	}
	failed("redis_error", r.storeErrors.Load())
	failed("service_error", r.serviceErrors.Load())
	add(prefix+"config_load_success", "Times the files were loaded.", nil, nil, r.configOK.Load())
	add(prefix+"config_load_error", "Times the files could not be loaded.", nil, nil, r.configErrors.Load())
	add(prefix+"global_shadow_mode", "Requests above a limit that SHADOW_MODE let pass.", nil, nil, r.globalShadow.Load())
	add(prefix+"domain_not_found", "Descriptors of a domain that no file has.", nil, nil, r.noDomain.Load())
}

var address = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// sanitize writes a key as envoyproxy/ratelimit does, where dots separate.
func sanitize(key string) string {
	key = strings.NewReplacer(":", "_", "|", "_").Replace(key)
	return address.ReplaceAllStringFunc(key, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}
