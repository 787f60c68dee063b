//go:build !race

package envoy_test

// maxAllocations of a decision.
const maxAllocations = 6
