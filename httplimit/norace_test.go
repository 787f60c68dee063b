//go:build !race

package httplimit_test

const countAllocations = true
