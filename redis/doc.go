// Package redis connects to Redis, a single server, one watched over by
// Sentinels, or a Cluster, for the jobs that it does, each a package of its own:
// limitstore keeps buckets and replaystore the replays of idempotent writes.
//
// A job opens its own [DB] with a [Config].
package redis
