// Package target calls the targets of plans: when the slot of an event is due, it
// sends the event's payload to a URL, signed as Standard Webhooks says.
//
//   - A [Runner] runs a dispatcher for each plan that has a target, and follows
//     the plans as they change.
//   - [Keys] seal the secrets of a target before the plan is stored.
//
// A call that may have been executed is not repeated, by anyone, unless the target
// says that it honours the Idempotency-Key. Targets are called at public addresses
// only, and at those that are allowed by name; redirects are not followed.
package target
