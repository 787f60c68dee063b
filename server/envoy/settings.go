package envoy

import "log/slog"

// Settings are those of envoyproxy/ratelimit's settings that change what is
// answered. The zero Settings are its defaults. [ReadEnvironment] reads them.
type Settings struct {
	// Headers adds response headers about the limit that is closest:
	// LIMIT_RESPONSE_HEADERS_ENABLED. The names are those of
	// LIMIT_LIMIT_HEADER, LIMIT_REMAINING_HEADER and LIMIT_RESET_HEADER; ""
	// means RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset.
	Headers         bool
	LimitHeader     string
	RemainingHeader string
	ResetHeader     string

	// Shadow answers OK to everything: SHADOW_MODE.
	Shadow bool

	// Quota never refuses, and names what is over in the metadata:
	// QUOTA_MODE.
	Quota bool

	// Metadata adds the request and what was over as dynamic metadata:
	// RESPONSE_DYNAMIC_METADATA.
	Metadata bool

	// MergeDomains lets several files name one domain: MERGE_DOMAIN_CONFIG.
	MergeDomains bool

	// StopCounting does not count hits within their limit if another
	// descriptor of the request is over: STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT.
	StopCounting bool

	// NearLimitRatio is the utilization above which hits count as near the limit:
	// NEAR_LIMIT_RATIO. 0 means 0.8.
	NearLimitRatio float32

	// KeyPrefix keeps the buckets of several installations apart:
	// CACHE_KEY_PREFIX. "" means envoy.
	KeyPrefix string

	// IgnoreDotFiles leaves out files and folders whose name begins with a
	// dot: RUNTIME_IGNOREDOTFILES. Those that begin with two, as in a volume
	// of Kubernetes, are always left out.
	IgnoreDotFiles bool

	// PlainNames leaves the folder out of the files' names in errors, as if
	// RUNTIME_WATCH_ROOT were false.
	PlainNames bool

	// LocalQuotas lets local quotas decide while the store is away. Otherwise
	// that is an error, as in envoyproxy/ratelimit, and Envoy's
	// failure_mode_deny decides.
	LocalQuotas bool

	// NeedDomain makes the service healthy only with at least one domain:
	// HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED.
	NeedDomain bool
}

func (s Settings) withDefaults() Settings {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&s.LimitHeader, "RateLimit-Limit"},
		{&s.RemainingHeader, "RateLimit-Remaining"},
		{&s.ResetHeader, "RateLimit-Reset"},
		{&s.KeyPrefix, "envoy"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if s.NearLimitRatio == 0 {
		s.NearLimitRatio = 0.8
	}
	return s
}

func defaultLog(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.Default()
	}
	return log
}
