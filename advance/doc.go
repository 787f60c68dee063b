// Package advance makes a shared store as fast as memory, without admitting
// more than it would.
//
// A node that sees traffic on a bucket takes tokens out of the store ahead of
// need and spends them locally. The store remembers what is held and refills
// only up to burst less held, so the tokens in the store and in the hands of
// all nodes never add up to more than the burst, and the bound holds exactly.
// What a node that crashed held is lost until its hold expires and refill has
// repaid it: fewer are admitted, never more.
//
// # What is held and what is not
//
// Token buckets and fixed windows with room for at least [MinCapacity] are.
// Critical demands, sliding windows, concurrency, shadow limits, those that
// count refused hits, leases, takes with a request id, takes up to an amount,
// waiting and peeking are always decided by the store. Where a take has both,
// the held tokens are set aside, one call decides the rest, and a refusal
// gives them back.
//
// # How much
//
// As much as two seconds of the traffic seen, at most a tenth of the capacity,
// for ten seconds. What is not spent goes back when the bucket falls
// idle and when the store is closed. Renewal begins before a hold is used up,
// so requests do not wait for it.
//
// What a node spent is known to the others once it is reported: within a
// second of its being used up, and otherwise when it goes back, seven seconds
// after it was granted at the latest. The store answers each report with what
// all have used, which [Config.Heard] is told.
//
// # When there is not enough
//
// A refusal is remembered until it could pass, for a second at most, so that
// a refused key is not asked again and again (the deny cache). It holds for
// costs at or above the refused one; what other nodes' holds caused is
// remembered for a moment only. So a refund, reset or return elsewhere is seen
// within a second. Of a bucket that is drained the node asks for a few due
// tokens at a time rather than for each, and while one caller asks, only those
// wait with it who may get something of what can have come since.
//
// # Time
//
// A node trusts a hold for a tenth less than the store keeps it, counted from
// before it asked, on the monotonic clock; it lets go of all holds when the
// wall clock runs ahead of that clock, which then did not count a suspension,
// and when the store's clock does.
package advance
