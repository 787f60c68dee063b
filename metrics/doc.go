// Package metrics shows Prometheus what a limiter and its parts do.
//
// [Takes] is an observer that counts decisions, and [Utilization] one that
// watches how full buckets are and tells the log when one comes near its
// limit. [Calls] stands in front of a shared store and times it. The
// collectors of stores, of the catalog and of what stands before the limiter
// read the figures that these keep anyway, when Prometheus asks, so they cost
// nothing in between.
//
// Labels never hold what callers choose freely: entities are not among them,
// and of resources, limits and tiers only the first few hundred are told
// apart. What comes after is "other".
package metrics
