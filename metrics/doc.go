// Package metrics shows Prometheus what a limiter and its parts do.
//
// [Takes] is an observer that counts decisions. The collectors of stores and
// of the catalog read the figures that these keep anyway, when Prometheus
// asks, so they cost nothing in between.
//
// Labels never hold what callers choose freely: entities are not among them,
// and of resources, limits and tiers only the first few hundred are told
// apart. What comes after is "other".
package metrics
