package envoy

import (
	"fmt"
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/sluice-go/sluice"
)

type unit = pb.RateLimitResponse_RateLimit_Unit

// rule is one rate_limit block, ready to be applied.
type rule struct {
	limit     sluice.Limit
	limitName string // the last part of its buckets' keys
	current   *pb.RateLimitResponse_RateLimit

	name      string
	replaces  []string
	unlimited bool
	shadow    bool
	quota     bool

	// counting rules are as in envoyproxy/ratelimit: hits count even if the
	// request is refused. Others are all or nothing.
	counting bool
	exact    bool // never decided with held tokens

	fullKey  string // its place in the files, for statistics
	detailed bool
	dynamic  bool // the statistics' key depends on the request
	stats    *stats
}

// seconds of each unit, as envoyproxy/ratelimit counts months and years.
var seconds = map[unit]int64{
	pb.RateLimitResponse_RateLimit_SECOND: 1,
	pb.RateLimitResponse_RateLimit_MINUTE: 60,
	pb.RateLimitResponse_RateLimit_HOUR:   60 * 60,
	pb.RateLimitResponse_RateLimit_DAY:    60 * 60 * 24,
	pb.RateLimitResponse_RateLimit_WEEK:   60 * 60 * 24 * 7,
	pb.RateLimitResponse_RateLimit_MONTH:  60 * 60 * 24 * 30,
	pb.RateLimitResponse_RateLimit_YEAR:   60 * 60 * 24 * 365,
}

// unitNames are the last part of the keys of buckets.
var unitNames = func() map[unit]string {
	names := map[unit]string{}
	for u := range seconds {
		names[u] = strings.ToLower(u.String())
	}
	return names
}()

// fixedWindow is so many requests in each window of a unit. Nothing at all is
// less than any cost, because a limit cannot be 0.
func fixedWindow(requests uint32, u unit) sluice.Limit {
	return sluice.Limit{
		Algorithm: sluice.FixedWindow,
		Amount:    sluice.Thousandths(max(int64(requests)*sluice.Token, 1)),
		Period:    time.Duration(seconds[u]) * time.Second,
	}
}

// newRule reads a rate_limit block. Its errors for what envoyproxy/ratelimit
// knows are worded as there.
func newRule(c *yamlRateLimit, d *yamlDescriptor, file *yamlRoot) (*rule, error) {
	value, present := pb.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(c.Unit)]
	u := unit(value)
	valid := present && u != pb.RateLimitResponse_RateLimit_UNKNOWN
	switch {
	case c.Unlimited && valid:
		return nil, fmt.Errorf("should not specify rate limit unit when unlimited")
	case !c.Unlimited && !valid && c.Period == "":
		return nil, fmt.Errorf("invalid rate limit unit '%s'", c.Unit)
	}
	r := &rule{
		name: c.Name, unlimited: c.Unlimited, shadow: d.ShadowMode, quota: d.QuotaMode, detailed: d.DetailedMetric,
		counting: true, exact: true,
		current: &pb.RateLimitResponse_RateLimit{RequestsPerUnit: c.RequestsPerUnit, Unit: u, Name: c.Name},
	}
	for _, replaced := range c.Replaces {
		if replaced.Name == "" {
			return nil, fmt.Errorf("should not have an empty replaces entry")
		}
		if replaced.Name == c.Name {
			return nil, fmt.Errorf("replaces should not contain name of same descriptor")
		}
		r.replaces = append(r.replaces, replaced.Name)
	}
	if r.unlimited {
		return r, nil
	}
	r.limit, r.limitName = fixedWindow(c.RequestsPerUnit, u), unitNames[u]
	return r, r.extend(c, file)
}

// extend applies the keys that are ours.
func (r *rule) extend(c *yamlRateLimit, file *yamlRoot) error {
	if c.Period != "" {
		if c.Unit != "" {
			return fmt.Errorf("rate_limit.period '%s': a limit has a unit or a period, not both", c.Period)
		}
		l, err := sluice.Parse("1/" + c.Period)
		if err != nil {
			return fmt.Errorf("rate_limit.period '%s': want a period such as 90s, 15min or 2h30m", c.Period)
		}
		r.limit.Period, r.limitName = l.Period, l.Period.String()
	}
	algorithm := c.Algorithm
	if algorithm == "" {
		algorithm = file.Algorithm
	}
	switch algorithm {
	case "", "fixed_window":
	case "token_bucket":
		r.limit.Algorithm = sluice.TokenBucket
	case "sliding_window":
		r.limit.Algorithm = sluice.SlidingWindow
	default:
		return fmt.Errorf("algorithm '%s': want fixed_window, sliding_window or token_bucket", algorithm)
	}
	if c.Burst > 0 {
		r.limit.Burst = sluice.Tokens(int64(c.Burst))
	}
	if hold := either(c.Hold, file.Hold); hold != nil && *hold {
		r.exact, r.counting = false, false
	}
	if refused := either(c.CountRefused, file.CountRefused); refused != nil {
		if *refused && !r.exact {
			return fmt.Errorf("hold: true goes with count_refused: false, as hits of refused requests are not known to the store")
		}
		r.counting = *refused
	}
	if err := r.limit.Validate(); err != nil {
		return fmt.Errorf("rate_limit: %w", err)
	}
	return nil
}

func either(a, b *bool) *bool {
	if a != nil {
		return a
	}
	return b
}

// override is the rule for a limit that a request brings itself.
func override(requests uint32, u unit) (*rule, error) {
	if seconds[u] == 0 {
		return nil, serviceError(fmt.Sprintf("descriptor limit has the unit %d: want one from second to year", u))
	}
	return &rule{
		limit: fixedWindow(requests, u), limitName: unitNames[u],
		current:  &pb.RateLimitResponse_RateLimit{RequestsPerUnit: requests, Unit: u},
		counting: true, exact: true,
	}, nil
}
