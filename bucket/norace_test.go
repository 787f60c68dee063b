//go:build !race

package bucket_test

// boundSteps is how many random steps each algorithm is put through.
const boundSteps = 1_000_000
