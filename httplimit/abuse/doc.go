// Package abuse watches for callers who go on and on after they were refused,
// or who suddenly send many times what they usually do. The first are banned
// for a while, the second put under a stricter limit.
//
// It counts in memory, beside the limits: it asks no store and keeps nobody
// waiting. Each node watches for itself. What it does about a caller holds on all
// nodes if they share a store, off the requests' path. Callers on the allow list
// are never seen here.
package abuse
