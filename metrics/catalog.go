package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/policy"
)

// Catalog shows how the catalog's caches do.
func Catalog(c *catalog.Catalog) prometheus.Collector {
	return figures(func(w *sheet) {
		st := c.Stats()
		each := func(name, help string, get func(*catalog.CacheStats) int64) {
			by(w, "sluice_catalog_"+name, help, "cache", map[string]int64{"limits": get(&st.Resolutions), "keys": get(&st.Keys)})
		}
		each("hits_total", "Answers from memory.", func(c *catalog.CacheStats) int64 { return c.Hits })
		each("misses_total", "Answers that were not in memory.", func(c *catalog.CacheStats) int64 { return c.Misses })
		each("loads_total", "Reads of the database.", func(c *catalog.CacheStats) int64 { return c.Loads })
		each("failures_total", "Reads of the database that failed.", func(c *catalog.CacheStats) int64 { return c.Failures })
		each("stale_total", "Old answers given because there was no new one.", func(c *catalog.CacheStats) int64 { return c.Stale })
		each("evicted_total", "Answers dropped to make room.", func(c *catalog.CacheStats) int64 { return c.Evicted })
		each("entries", "Answers in memory.", func(c *catalog.CacheStats) int64 { return int64(c.Entries) })
		add(w, "sluice_catalog_watching", "1 while changes made elsewhere are reported at once.", one(st.Watching))
	})
}

// Usage shows how the recorder of usage does.
func Usage(r *catalog.Recorder) prometheus.Collector {
	return figures(func(w *sheet) {
		st := r.Stats()
		add(w, "sluice_usage_rows_total", "Rows of usage written.", st.Written)
		add(w, "sluice_usage_failures_total", "Writes of usage that failed, and are tried again.", st.Failures)
		add(w, "sluice_usage_other_total", "Changes counted as of other entities, because there were too many.", st.Other)
	})
}

// Policy shows whether the policy file is the policy in place.
func Policy(l *policy.Live) prometheus.Collector {
	return figures(func(w *sheet) {
		st := l.Status()
		add(w, "sluice_policy_loads_total", "Policies put in place.", st.Loads)
		add(w, "sluice_policy_failures_total", "Policy files refused.", st.Failures)
		add(w, "sluice_policy_current", "1 if the file as it is now is the policy in place.", one(st.Err == nil))
		add(w, "sluice_policy_loaded_timestamp_seconds", "When the policy was put in place.", float64(st.Loaded.UnixMilli())/1000)
		add(w, "sluice_policy_mistakes", "Mistakes in the file as it is now, for which it was refused.", mistakes(st.Err))
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
