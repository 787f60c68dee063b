package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/policy"
)

// Catalog shows how the catalog's caches do.
func Catalog(c *catalog.Catalog) prometheus.Collector {
	return collect([]figure{
		{name: "sluice_catalog_hits_total", help: "Answers from memory.", label: "cache"},
		{name: "sluice_catalog_misses_total", help: "Answers that were not in memory.", label: "cache"},
		{name: "sluice_catalog_loads_total", help: "Reads of the database.", label: "cache"},
		{name: "sluice_catalog_failures_total", help: "Reads of the database that failed.", label: "cache"},
		{name: "sluice_catalog_stale_total", help: "Old answers given because there was no new one.", label: "cache"},
		{name: "sluice_catalog_evicted_total", help: "Answers forgotten for want of room.", label: "cache"},
		{name: "sluice_catalog_entries", help: "Answers in memory.", label: "cache"},
		{name: "sluice_catalog_watching", help: "1 while changes elsewhere are heard of at once."},
	}, func(add func(int, float64, ...string)) {
		st := c.Stats()
		for name, cache := range map[string]catalog.CacheStats{"limits": st.Resolutions, "keys": st.Keys} {
			for i, n := range []int64{cache.Hits, cache.Misses, cache.Loads, cache.Failures, cache.Stale, cache.Evicted, int64(cache.Entries)} {
				add(i, float64(n), name)
			}
		}
		add(7, one(st.Watching))
	})
}

// Usage shows how the recorder of usage does.
func Usage(r *catalog.Recorder) prometheus.Collector {
	return collect([]figure{
		{name: "sluice_usage_rows_total", help: "Rows of usage written."},
		{name: "sluice_usage_failures_total", help: "Writes of usage that failed, and are tried again."},
		{name: "sluice_usage_other_total", help: "Changes counted as of other entities, because there were too many."},
	}, func(add func(int, float64, ...string)) {
		st := r.Stats()
		add(0, float64(st.Written))
		add(1, float64(st.Failures))
		add(2, float64(st.Other))
	})
}

// Policy shows whether the policy file is the policy in place.
func Policy(l *policy.Live) prometheus.Collector {
	return collect([]figure{
		{name: "sluice_policy_loads_total", help: "Policies put in place."},
		{name: "sluice_policy_failures_total", help: "Policy files refused."},
		{name: "sluice_policy_current", help: "1 if the file as it is now is the policy in place."},
		{name: "sluice_policy_loaded_timestamp_seconds", help: "When the policy was put in place."},
		{name: "sluice_policy_mistakes", help: "Mistakes in the file as it is now, for which it was refused."},
	}, func(add func(int, float64, ...string)) {
		st := l.Status()
		add(0, float64(st.Loads))
		add(1, float64(st.Failures))
		add(2, one(st.Err == nil))
		add(3, float64(st.Loaded.UnixMilli())/1000)
		add(4, float64(mistakes(st.Err)))
	})
}

// mistakes is how many there are. A file that cannot be read is one.
func mistakes(err error) int {
	var list policy.Mistakes
	switch {
	case err == nil:
		return 0
	case errors.As(err, &list):
		return max(len(list), 1)
	}
	return 1
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
