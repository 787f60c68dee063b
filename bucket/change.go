package bucket

import "github.com/sluice-go/sluice"

// Repaces reports whether p and from are token buckets that refill at different
// rates. A refusal under such a limit must leave it to the bucket: the wait it
// tells is by p's rate, and would not come true by from's.
func (p *Spec) Repaces(from *Spec) bool {
	return p.Limit.Algorithm == sluice.TokenBucket && from.Limit.Algorithm == sluice.TokenBucket &&
		(p.amount != from.amount || p.period != from.period) // which are in lowest terms
}

// Adopt turns a state that was written under another limit into one of p.
// The package comment says by which rules.
func (p *Spec) Adopt(s *State, from *Spec, now int64) {
	v := from.View(s, now)
	from.commit(s, v)
	a, b := from.Limit.Algorithm, p.Limit.Algorithm
	if a == sluice.TokenBucket && b == a {
		// The remainder is a fraction of a millitoken, kept as the time it
		// took. To a faster rate that time may mean many millitokens, of
		// which it must not mint more than one.
		s.Time = v.Now - min(s.Rem/from.amount, p.period/p.amount)
		s.Rem = 0
		return
	}
	if a == b && from.period == p.period && from.Limit.Calendar == p.Limit.Calendar && from.Limit.Zone == p.Limit.Zone {
		return // only the capacity changed
	}
	var line *Ext // those who wait go on waiting
	if s.Ext != nil && len(s.Ext.Tickets) > 0 {
		line = &Ext{Tickets: s.Ext.Tickets}
	}
	if a == sluice.Concurrency || b == sluice.Concurrency {
		*s = State{Consumed: s.Consumed, Ext: line}
		return
	}
	// What is held may be spent under either limit, so it counts as used; a
	// late return of it will be ignored.
	used := s.Used + v.Held
	consumed := Saturate(s.Consumed + v.Held)
	*s = State{Ext: line}
	if used > 0 {
		w := p.View(s, v.Now)
		p.Take(s, w, used)
	}
	s.Consumed = consumed
}
