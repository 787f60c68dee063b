// Package failover keeps answering while a store is slow, wrong or gone.
//
// [New] puts a [Store] in front of another store. It gives every call a
// time-out, stops asking a store that fails, decides locally in the meantime,
// and returns to the store step by step:
//
//	normal ──3 failures──> open ──5 s to 60 s──> half-open
//	  ^                      ^                    │      │
//	  │                      └──────a failure─────┘      │ 3 successes
//	  │                                                  v
//	  └──── stabilizing <───── partial <───────────── testing
//	             60 %             25 %      of keys       5 %
//
// From testing on, a failure that fewer than 19 successes of the phase make up
// for steps back by one, and three in a row open the breaker again. There is one
// breaker for a store, or one for each of its [Shards], not one for each key.
//
// Calls that fail together are one failure: it counts only if its call began
// after the last one that counted. A time-out that this process noticed late,
// because it got no processor time, does not count. After an outage that was
// shorter than the first back-off, 5 s, three successes lead from half-open
// straight to normal.
//
// In every state but normal a health check asks the store every half second,
// whatever the back-off, which is for callers. So with traffic or without, and
// with the default settings, the state is normal again within 2 s of the end of
// a short outage and within 64 s of a longer one, or 94 s if calls failed
// during the recovery.
//
// # What is answered meanwhile
//
// What each demand's OnUnavailable says. A take is refused if any of its
// demands denies. Those that degrade take from a local quota: one for each
// entity, however many limits it has, as large as the take's tier allows. A
// fleet admits at most the quota times the number of nodes.
//
// Such decisions say so: their Source is [sluice.Degraded] if the store
// certainly counted nothing, and [sluice.Unknown] if it gave no answer and may
// have counted the take. A take that ended so is never sent again.
//
// Everything but takes needs the store, and answers [sluice.ErrUnavailable]
// at once while the breaker is open. Leases given meanwhile are settled
// locally.
//
// # Why the breaker is written here
//
// sony/gobreaker, the usual choice, waits equally long each time it is open,
// locks a mutex in every call, and ends where it closes, which is where the
// phases of recovery begin: they need the same failures, the same clock and
// the same notion of a result that comes too late. One state machine for both
// is smaller than a library and its wrapping.
package failover
