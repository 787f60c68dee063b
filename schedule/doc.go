// Package schedule spreads work over time. Each piece of work, an event, gets
// a slot: a moment inside a window that has room for it. Later a dispatcher
// starts what is due, never faster than the party that serves it allows.
//
//   - [Scheduler.Assign] gives one event its slot, [Scheduler.AssignBatch]
//     thousands at once. Asked again for the same event, they answer the same.
//   - A [Plan] says how many events fit into a window, how long windows are and
//     at which hours there are any. [Scheduler.SetPlan] makes a new version.
//   - [Dispatcher] runs a [Worker] for each slot that is due, within a limit
//     that all dispatchers share.
//   - [Scheduler.Reconcile] finds slots that nobody ever started and gives
//     their room back.
//   - [Scheduler.Sweep] removes what is long over; see [Retention].
//
// Windows are never over-full, whatever the number of writers; a window that
// another writer is using is skipped and not waited for. The scheduled moment
// is random inside its window, so that raising a plan's maximum leaves no
// clusters, and never before the requested one.
//
// Slots live in a [Store]: package postgres for any number of nodes, package
// sqlite for one machine.
package schedule
