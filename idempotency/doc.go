// Package idempotency makes writes safe to send again: the first request with
// a key runs and its response is stored, and a repeat gets that response back.
//
// A [Keeper] stands on a [Store] (memory here, or packages sqlite, redis and
// postgres) and is used in three ways:
//
//   - [Keeper.Handler] is middleware for net/http: it reads Idempotency-Key,
//     runs the handler once, stores what it answers and replays it.
//   - [Keeper.Claim], [Keeper.Extend], [Keeper.Complete] and [Keeper.Release]
//     are the same in single steps, for whoever runs the work elsewhere.
//   - [Send] makes an outgoing call, such as a webhook, once for each key.
//
// A request that finds no record claims its key: one atomic step that inserts
// or fails, with a life and a token drawn for it alone. The claim is extended
// while the work goes on. If the process dies, the claim lapses, and the route
// decides whether the next request runs the work again or is told that the
// outcome is unknown. Whoever lost its claim meanwhile cannot overwrite what
// the newer one stores, because its token is no longer the record's.
//
// The record also has a fingerprint of the request, so that a key used again
// for something else is refused instead of being answered with the wrong
// response.
package idempotency
