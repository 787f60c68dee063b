// Package bucket is the arithmetic of every algorithm: pure functions of a
// state, a limit and the time, in integers only. It is the reference that
// each store must agree with to the last millitoken.
//
// # State
//
// A state records what is used, not what is left, so that nothing used and
// no state at all mean the same: a full bucket. Amounts are millitokens,
// times are microseconds since the Unix epoch.
//
// The protocol is View, then one of the changes:
//
//	v := spec.View(&state, now)     // reads only
//	if cost <= v.Available() {
//		spec.Take(&state, v, cost)  // writes
//	}
//
// A refusal therefore writes nothing, and looking at a bucket never changes
// what a later look will see.
//
// # Refill
//
// A token bucket refills amount/period (in lowest terms) for each
// microsecond. Over e microseconds that is (e×amount + rem) / period whole
// millitokens, and the remainder of that division is kept as rem for the next
// time. So refilling in many small steps gives exactly what one large step
// gives: no drift, whichever way. To stay within 53 bits the whole periods in
// e are divided out first.
//
// # Time
//
// Time never runs backwards for a bucket: an earlier now is taken as the time
// of the last change.
//
// # Waiting
//
// Nobody takes what is not there yet. A caller that waits has a ticket in the
// bucket: its place in line and what it wants. That counts as used for all who
// come after it, so it is served first, and it is gone at once if the caller
// gives up: nothing was consumed that would have to be given back.
//
// # When a limit changes
//
// A state remembers nothing of the limit it was written under; the store
// does, and calls [Spec.Adopt]. What is used stays used, and is repaid by the
// new limit's rules. So a raised limit gives room at once, a lowered one may
// stay closed until enough is repaid, and nodes that disagree about a limit
// cannot mint tokens by taking turns: together they stay within the larger
// burst and the faster rate. Changing to or from concurrency starts anew. A
// refusal leaves the bucket under the limit it had, unless the new one refills
// at another rate: see [Spec.Repaces].
package bucket
