package httplimit_test

import (
	"net/http"
	"strings"
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

func BenchmarkMiddleware(b *testing.B) {
	for name, text := range map[string]string{"headers=none": noHeaders, "headers=ietf": ietfHeaders, "headers=all": quick} {
		b.Run(name, func(b *testing.B) {
			h := gate(b, text).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			w, r := &sink{h: http.Header{}}, request(b, "pro")
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
	}
}
