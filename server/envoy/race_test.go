//go:build race

package envoy_test

// maxAllocations of a decision: under the race detector pools forget at
// random.
const maxAllocations = 20
