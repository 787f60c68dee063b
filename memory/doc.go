// Package memory is the embedded store: buckets in this process, bounded in
// number and in bytes, with a snapshot on disk if wanted.
//
// # How it is laid out
//
// Buckets are spread over many small hash tables by a seeded hash of their
// whole key, each behind its own mutex. A table keeps its buckets in its own
// slots, one line of the cache each and without pointers: a look-up reads one
// place in memory, the garbage collector has nothing to follow, and a bucket
// costs under a hundred bytes. What many buckets have in common (namespace,
// resource, limit) is kept once, as a scope.
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
