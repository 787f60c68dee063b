// Package sluice limits rates, exactly: never over the limit, with the same
// arithmetic on every store.
//
// A [Limiter] asks a [Store] about takes. Its verbs differ in what happens
// when there is not enough, and in what can be changed afterwards:
//
//   - [Limiter.Take] answers at once: all demands are consumed, or none is.
//   - [Limiter.Peek] answers the same and consumes nothing.
//   - [Limiter.Wait] takes, waiting in line until it can.
//   - [Limiter.Acquire] takes and gives a [Lease], for work whose real cost
//     is known only afterwards: adjust, commit, or release it.
//   - [Limiter.Do] runs a function under a lease and gives everything back
//     if the function fails.
//   - [Limiter.Adjust] consumes or refunds without asking.
//   - [Limiter.Reset] makes buckets as new.
//
// A [Demand] names a bucket by its [Key], a [Limit] and a cost. Several
// demands in one take are decided together: a refusal by one consumes
// nothing from any.
//
// The promise, on net consumption (takes less refunds) in the store's time:
// a token bucket lets pass at most burst + rate × interval in every interval,
// a sliding window at most its amount in any window of its length, a fixed
// window at most its amount in each aligned window, and concurrency at most
// its amount unexpired at once. Adjusting may exceed it by a recorded debt.
//
// # For authors of stores
//
// [Store], [Watcher] and [Capabilities] are what a store implements, and
// [HoldRequest], [HoldReturn], [HoldID], [Grant], [Settlement], [Action],
// [Ticket], [Query], [Page] and [Bucket] what it is asked and answers. Programs
// that only limit need none of them. Package bucket has the arithmetic, and
// package storetest the suite that a store must pass.
package sluice
