package failover

import "time"

// Stats are counts since New, and the current state. With [Config].Shards the
// state is that of the worst of them, and what is counted by state is the sum.
type Stats struct {
	State State
	Since time.Time // when it began

	// NextProbe is how long until a caller may try the store again, if the
	// breaker is open and the store passes no health check before.
	NextProbe time.Duration

	Entered map[State]int64         // how often each state was entered
	Spent   map[State]time.Duration // how long it lasted in all, the present one included

	// Calls that failed, by kind of failure.
	TimedOut    int64 // no answer in time
	Lost        int64 // no answer for another reason, such as a connection cut
	Unreachable int64 // nothing can have happened
	Faulty      int64 // an answer that is none

	Busy       int64 // calls not made because too many waited for a store that answers
	Unreadable int64 // calls that met a record which the store cannot read

	Unacknowledged int64 // calls carried out that too few replicas have acknowledged

	Degraded map[string]Decided // local decisions by tier; "" is every tier without a quota of its own
	Unknown  int64              // those of them that the store may have counted too

	UnknownAdjusts int64 // adjustments and settlements that may or may not have happened

	Recoveries int64 // times that the store was back to normal

	// The size of the degraded state.
	Buckets    int64 // local quotas that are not full
	Bytes      int64 // of memory, estimated
	Overflowed int64 // local takes that had to share a quota
	Leases     int64 // given locally and still open
	Unlisted   int64 // leases given locally whose cost was not kept
}

// Decided counts takes by how they were decided.
type Decided struct{ Allowed, Refused int64 }

// State returns the current state; with [Config].Shards that of the worst of them.
func (s *Store) State() State { return s.worst().state() }

// Press tells the local quotas whether the process is short of memory: see
// [memory.Store.Press].
func (s *Store) Press(pressed bool) (forgotten int64) { return s.local.Press(pressed) }

// Stats returns the store's state and counters.
func (s *Store) Stats() Stats {
	st := Stats{
		Entered: map[State]int64{}, Spent: map[State]time.Duration{}, Degraded: map[string]Decided{},
		TimedOut: s.outcomes[timedOut].Load(), Lost: s.outcomes[lost].Load(),
		Unreachable: s.outcomes[unreachable].Load(), Faulty: s.outcomes[faulty].Load(), Busy: s.outcomes[busy].Load(),
		Unreadable:     s.outcomes[unreadable].Load() + s.outcomes[halted].Load(),
		Unacknowledged: s.outcomes[unacknowledged].Load(),
		Unknown:        s.unknown.Load(), UnknownAdjusts: s.adjusts.Load(),
		Unlisted: s.leases.unlisted.Load(),
	}
	worst := s.worst()
	st.State, st.Since = worst.state(), worst.began()
	s.breakers(func(b *breaker) { b.report(&st) })
	for tier, q := range s.settings.Load().quotas {
		st.Degraded[tier] = Decided{Allowed: q.allowed.Load(), Refused: q.refused.Load()}
	}
	local := s.local.Stats()
	st.Buckets, st.Bytes, st.Overflowed = local.Buckets, local.Bytes, local.Overflowed
	st.Leases = s.leases.open()
	return st
}

func (b *breaker) report(st *Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, state := b.now(), b.state()
	if state == Open {
		st.NextProbe = max(st.NextProbe, time.Duration(b.until.Load())-now)
	}
	for s := range State(states) {
		st.Entered[s] += b.entered[s]
		st.Spent[s] += b.spent[s]
	}
	st.Spent[state] += now - b.since
	st.Recoveries += b.entered[Normal]
}

// began returns when the state began.
func (b *breaker) began() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.origin.Add(b.since)
}
