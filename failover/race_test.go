//go:build race

package failover_test

// outageKeys is how many keys the long outage has, and how many quotas are
// kept: fewer under the race detector, which makes it ten times slower and
// proves nothing more here.
const outageKeys, outageBuckets = 100_000, 50_000
