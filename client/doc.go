// Package client asks a Sluice server over HTTP, with the verbs of the
// library:
//
//   - [Client.Take] consumes, all limits or none, or refuses at once.
//   - [Client.TakeUpTo] consumes as much of the cost as there is.
//   - [Client.Peek] answers what Take would, and consumes nothing.
//   - [Client.Wait] waits in the server's line until it can take.
//   - [Client.Acquire] takes and gives a [Lease], to be adjusted to the real
//     cost, and committed or released.
//   - [Client.Adjust] consumes or refunds without asking.
//   - [Client.Reset] makes buckets as new.
//
// A refusal is a decision and no error. Everything else that the server does
// (entities, stored limits, keys, usage, slots, replays) has a typed call, too.
//
// Nothing is sent twice by this package: after an error that wraps
// sluice.ErrUnknown a take may have happened. A take with an ID can be sent
// again safely.
package client
