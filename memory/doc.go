// Package memory is the embedded store: buckets in this process, bounded in
// number and in bytes, with a snapshot on disk if wanted.
//
// # How it is laid out
//
// Buckets are spread by a seeded hash over many small shards, each with its
// own mutex and hash tables. A table keeps its records in its own slots,
// without pointers: a look-up reads one place in memory, the garbage collector
// has nothing to follow, and a bucket costs under a hundred bytes. Limits of an
// entity and resource that are taken together share a record, of one line of
// the cache for one limit and two for three. What many records have in common
// (namespace, resource, limits) is kept once, as a scope.
//
// # What is forgotten
//
// Only full buckets, which equal absent ones: a few with every insertion, and
// the rest by a slow background pass that never holds a lock for long. When
// the bounds are reached, takes on new keys share one overflow bucket for
// each limit (and place in the take), so a flood of keys cannot exhaust
// memory and cannot escape its limits either. [Stats] counts it.
//
// # Time
//
// The store's time starts as the wall clock and then follows the monotonic
// clock. A wall clock set forward is followed; one set back is not, since
// that would freeze every bucket until it has caught up. Both are counted and
// logged.
package memory
