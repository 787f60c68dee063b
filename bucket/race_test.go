//go:build race

package bucket_test

// boundSteps is how many random steps each algorithm is put through. Under
// the race detector, which has nothing to find in pure functions, a quarter
// has to do.
const boundSteps = 250_000
