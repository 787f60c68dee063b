package envoy_test

import (
	"testing"

	"github.com/sluice-go/sluice/server/envoy"
)

// BenchmarkShouldRateLimit is what a decision costs without the wire.
func BenchmarkShouldRateLimit(b *testing.B) {
	s := open(b, "domain: x\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 4294967295}}]", envoy.Settings{})
	q := request("x", d("user", "somebody"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.ShouldRateLimit(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}

// TestAllocations keeps a decision from becoming expensive: the answer is
// made of four pieces, and the bucket has a name.
func TestAllocations(t *testing.T) {
	s := open(t, "domain: x\ndescriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 4294967295}}]", envoy.Settings{})
	q := request("x", d("user", "somebody"))
	ask(t, s, q)
	if n := testing.AllocsPerRun(100, func() { ask(t, s, q) }); n > maxAllocations {
		t.Errorf("a decision allocates %.0f times, want at most %d", n, maxAllocations)
	}
}
