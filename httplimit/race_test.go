//go:build race

package httplimit_test

// Under the race detector pools forget on purpose, so that counting
// allocations says nothing.
const countAllocations = false
