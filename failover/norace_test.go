//go:build !race

package failover_test

// outageKeys is how many keys the long outage has, and how many quotas are
// kept.
const outageKeys, outageBuckets = 2_000_000, 1_000_000
