package httplimit_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// sink is a response writer that costs nothing.
type sink struct{ h http.Header }

func (s *sink) Header() http.Header         { return s.h }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }
func (s *sink) WriteHeader(int)             {}

var (
	quick       = strings.NewReplacer("5/hour", "1000000000/hour", "1000/hour", "1000000000/hour", "50/minute", "100000000/minute").Replace(sample)
	noHeaders   = strings.Replace(quick, "headers: {send: [ietf, legacy, x-ratelimit], cost: true, source: true}", "headers: {send: []}", 1)
	ietfHeaders = strings.Replace(quick, "headers: {send: [ietf, legacy, x-ratelimit], cost: true, source: true}", "headers: {send: [ietf]}", 1)
)

func request(t testing.TB, key string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://example.com/a/b/c", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "203.0.113.7:4711"
	if key != "" {
		r.Header.Set("X-API-Key", key)
	}
	return r
}

func TestAnAllowedRequestCostsNoMemoryButItsHeaders(t *testing.T) {
	for name, test := range map[string]struct {
		policy, key string
		want        float64
	}{
		"key, no headers":      {noHeaders, "pro", 0},
		"address, no headers":  {noHeaders, "", 0},
		"key, all headers":     {quick, "pro", 2}, // the text, and the slices that headers are
		"address, two headers": {ietfHeaders, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := gate(t, test.policy).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			w, r := &sink{h: http.Header{}}, request(t, test.key)
			if n := testing.AllocsPerRun(200, func() { h.ServeHTTP(w, r) }); n > test.want && countAllocations {
				t.Errorf("%v allocations, want %v", n, test.want)
			}
		})
	}
}

// BenchmarkMiddleware is what the middleware costs a caller with a key under
// two limits, and one known by its address alone under one.
func BenchmarkMiddleware(b *testing.B) {
	const oneLimit = `
version: 1
tiers: {free: {limits: {requests: 10M/second}}}
default_tier: free
limits: {requests: {per: caller}}
headers: {send: %s}
`
	for _, c := range []struct{ name, policy, key string }{
		{"limits=2/headers=none", noHeaders, "pro"},
		{"limits=2/headers=ietf", ietfHeaders, "pro"},
		{"limits=2/headers=all", quick, "pro"},
		{"limits=1/headers=none", fmt.Sprintf(oneLimit, "[]"), ""},
		{"limits=1/headers=ietf", fmt.Sprintf(oneLimit, "[ietf]"), ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := gate(b, c.policy).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			w, r := &sink{h: http.Header{}}, request(b, c.key)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}

// BenchmarkMiddlewareWatched is what watching callers costs when all cores are busy
// with callers within their limits.
func BenchmarkMiddlewareWatched(b *testing.B) {
	const text = `
version: 1
limits: {requests: {per: ip, limit: 10M/second}}
headers: {send: []}
abuse: {%s}
`
	const ban = "ban: {refusals: 20, within: 1m, for: 10m}"
	for _, c := range []struct{ name, abuse string }{
		{"nobody", ""},
		{"bans", ban},
		{"bans and emergencies", ban + ", emergency: {factor: 10, baseline: 1h, at_least: 100M/minute, limit: 1/s, for: 10m}"},
	} {
		for _, same := range []bool{true, false} {
			b.Run(fmt.Sprintf("watch=%s/one caller=%t", c.name, same), func(b *testing.B) {
				h := gate(b, fmt.Sprintf(text, c.abuse)).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				var callers atomic.Int32
				b.RunParallel(func(pb *testing.PB) {
					w, r := &sink{h: http.Header{}}, request(b, "")
					if !same {
						r.RemoteAddr = fmt.Sprintf("203.0.113.%d:4711", callers.Add(1))
					}
					for pb.Next() {
						h.ServeHTTP(w, r)
					}
				})
			})
		}
	}
}
