// Package httplimit puts limits on HTTP, both ways.
//
// Inbound, [PerIP], [PerKey] and [Per] put one limit before a handler, in one
// line. Beyond that, a [Gate] decides requests by a policy, and [Gate.Wrap] makes a
// middleware of it for net/http and whatever builds on it: it finds out who
// is calling, takes from all limits that apply in one step, tells the caller
// what is left, and refuses with a body that says which limit it was and
// when to come back.
//
// Outbound, a [Transport] takes before it sends and waits in turn, and it
// listens to what the other side says about its own limits.
package httplimit
