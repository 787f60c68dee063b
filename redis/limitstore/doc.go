// Package limitstore keeps buckets in Redis.
//
// One script does everything. It reads the server's clock once, decides in the
// exact arithmetic of package bucket, and writes last, so that an error before
// proves that nothing has happened. A take is one call whatever the number of
// its limits, and takes that come while a call is under way are sent together.
//
// All limits of one entity and resource are kept under one key, which expires
// when all of them are full. docs/redis.md says what is stored, what a failover
// can lose, and what takes over several slots of a Cluster do differently.
package limitstore
