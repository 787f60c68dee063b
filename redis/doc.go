// Package redis keeps buckets in Redis: a single server, one watched over by
// Sentinel, or a Cluster.
package redis
