// Package envoy is a drop-in for envoyproxy/ratelimit: it answers
// envoy.service.ratelimit.v3.RateLimitService on gRPC and /json on HTTP, from
// that service's own configuration files, unchanged.
//
//	service, err := envoy.Open(envoy.Config{Limiter: limiter, Dir: "/etc/ratelimit/config"})
//	service.Register(grpcServer)
//	http.Handle("/json", service.Handler())
//
// For the same requests the answers are equal: codes, statuses, current
// limit, remaining, reset, headers and dynamic metadata. That includes its
// habit of counting the hits of refused requests. docs/envoy.md lists the few
// deliberate differences.
//
// # One line more
//
// These keys are ours. In rate_limit they are about one limit, at the top of
// a file about all of its limits:
//
//	algorithm: token_bucket   # or sliding_window; fixed_window is the default
//	count_refused: false      # all or nothing: a refused request consumes nothing
//	hold: true                # decided in memory with tokens held ahead of need; implies the line above
//
// and in rate_limit only:
//
//	period: 90s               # in place of unit
//	burst: 50                 # of a token bucket
package envoy
