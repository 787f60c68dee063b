// Package world plays whole installations of Sluice in simulated time and
// checks what callers are told.
//
// A world has a few nodes, each with the real [sluice.Limiter], the real
// packages advance and failover and a real [catalog.Recorder], over one
// [storetest.Model] behind a simulated network. A seed makes the world: its
// nodes, limits, callers and faults. Playing it inside a testing/synctest bubble takes
// milliseconds for minutes of its time.
//
// # The same seed gives the same history
//
// In a bubble time stands still until every goroutine is blocked, so it is time
// that orders events, as long as no two goroutines that have something to do
// with each other wake at the same instant. Hence three rules:
//
//   - No randomness is drawn from a sequence, because goroutines would race for
//     its next number. Each number follows from the seed and from what it is
//     for: the node, the caller, the operation and the instant.
//   - Whatever passes from one component into the next is put off by a number of
//     nanoseconds that is drawn this way.
//   - Callers that would wait for the same request for held tokens stand in
//     line before they enter a node.
//
// # Checks
//
// Each promise has a file that states it exactly: bound.go, accounting.go,
// refusals.go, figures.go, alarms.go, waiting.go, repeats.go and recovery.go. They look
// at what callers were told, at what the store did, and at what was written
// down as usage. docs/world.md lists them.
package world
