package envoy_test

import (
	"strings"
	"testing"

	bench "github.com/sluice-go/sluice/bench/envoy"
)

// TestTheSuiteRuns measures every server for a moment. The figures of so
// short a run mean nothing.
func TestTheSuiteRuns(t *testing.T) {
	var log strings.Builder
	suite, err := bench.Run(bench.Quick(&log))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(suite.Tables[0].Rows); n != 4 || len(suite.Claims) != 5 {
		t.Errorf("%d sides and %d claims:\n%s", n, len(suite.Claims), log.String())
	}
}
