package bucket

import (
	"math"
	"time"

	"github.com/sluice-go/sluice"
)

// Forever is the longest time this package answers with, in microseconds: a
// little over 142 years. Longer waits are cut to it.
const Forever = 1 << 52

// Never is the wait for a cost above the capacity.
const Never = math.MaxInt64

// Spec is a valid limit, prepared for arithmetic.
type Spec struct {
	Limit    sluice.Limit
	Capacity int64 // the most that can be taken at once

	amount, period int64 // refill in lowest terms
	forever        int64 // how many periods are as long as Forever
	zone           *time.Location
}

// Compile validates and prepares l.
func Compile(l sluice.Limit) (*Spec, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	s := &Spec{Limit: l, Capacity: int64(l.Capacity())}
	if l.Algorithm == sluice.TokenBucket {
		s.amount, s.period = l.Rate()
		s.forever = Forever / s.period
	} else {
		s.period = l.Period.Microseconds()
	}
	if l.Calendar != sluice.NoCalendar {
		zone, err := sluice.Zone(l.Zone)
		if err != nil {
			return nil, err
		}
		s.zone = zone
	}
	return s, nil
}

// State is what a store keeps for one bucket. The zero State is full.
type State struct {
	Used int64 // consumed and not yet repaid; above the capacity is debt
	Rem  int64 // token bucket: the remainder of the last refill, below period

	// Time is when Used was counted: the last refill of a token bucket, the
	// start of a fixed window, the newest part of a sliding window (its
	// number, not its time); not used by concurrency.
	Time int64

	// Consumed is net consumption since the bucket was last full and
	// forgotten, whatever has been refilled since.
	Consumed int64

	Ext *Ext // nil for most buckets
}

// Ext is what only some buckets need.
type Ext struct {
	Counts  []int64  // sliding window: a ring of SubWindows+1 counts, by number modulo its length
	Flights []Flight // concurrency, in order of expiry
	Holds   []Hold   // in order of expiry

	// Until Recalled nothing is held in advance, because a take of
	// RecallCost was refused for what is held.
	Recalled   int64
	RecallCost int64
}

// Flight is a lease in a concurrency limit.
type Flight struct {
	ID      string
	Cost    int64
	Expires int64
}

// Hold is tokens in the hands of a node.
type Hold struct {
	ID      sluice.HoldID
	Amount  int64
	Expires int64
}

// View is a state brought to the present, without changing it.
type View struct {
	Now  int64 // never before the state's time
	Used int64
	Rem  int64
	Time int64 // as State.Time
	End  int64 // fixed window: when it ends
	Held int64

	capacity int64
}

// Available is the most that can be taken now; negative is debt.
func (v *View) Available() int64 { return v.capacity - v.Used - v.Held }

// Idle reports whether the state equals an absent one.
func (v *View) Idle() bool { return v.Used == 0 && v.Held == 0 }

// View brings s to now.
func (p *Spec) View(s *State, now int64) View {
	switch p.Limit.Algorithm {
	case sluice.SlidingWindow:
		return p.viewSliding(s, now)
	case sluice.FixedWindow:
		return p.viewFixed(s, now)
	case sluice.Concurrency:
		return p.viewFlights(s, now)
	default:
		return p.viewTokens(s, now)
	}
}

// RetryIn is how many microseconds after v.Now cost could be taken if nothing
// else happens: 0 if it fits, [Never] if it cannot ever.
func (p *Spec) RetryIn(s *State, v View, cost int64) int64 {
	if cost <= v.Available() {
		return 0
	}
	if cost > p.Capacity {
		return Never
	}
	return p.until(s, v, p.Capacity-cost)
}

// ResetIn is how many microseconds after v.Now nothing is used or held any
// more, so that the state can be forgotten.
func (p *Spec) ResetIn(s *State, v View) int64 {
	if v.Idle() {
		return 0
	}
	return p.until(s, v, 0)
}

// until is how long it takes for used and held to come down to target.
func (p *Spec) until(s *State, v View, target int64) int64 {
	var wait int64
	switch p.Limit.Algorithm {
	case sluice.SlidingWindow:
		wait = p.untilSliding(s, v, target)
	case sluice.FixedWindow:
		wait = v.End - v.Now
	case sluice.Concurrency:
		wait = untilFlights(s, v, target)
	default:
		wait = p.untilTokens(s, v, target)
	}
	return min(wait, Forever)
}

// Take consumes cost at v, unconditionally: what is beyond the capacity is
// debt, of at most sluice.MaxTokens. v must be the View of s. It answers what
// was consumed, which the cap on debt may make less than cost.
//
// Concurrency is taken with [Spec.Board] instead.
func (p *Spec) Take(s *State, v View, cost int64) int64 {
	cost = max(0, min(cost, p.Capacity+int64(sluice.MaxTokens)-v.Used))
	p.commit(s, v)
	s.Used += cost
	if s.Ext != nil && cost >= s.Ext.RecallCost {
		s.Ext.Recalled, s.Ext.RecallCost = 0, 0
	}
	if p.Limit.Algorithm == sluice.SlidingWindow {
		s.Ext.Counts[floorMod(v.Time, ring)] += cost
	}
	s.Consumed = Saturate(s.Consumed + cost)
	return cost
}

// Refund gives back up to amount of what was taken at or after since, and
// answers how much that was. Windows give back only what they still count; a
// token bucket is filled at most.
func (p *Spec) Refund(s *State, v View, amount, since int64) int64 {
	amount = max(amount, 0)
	amount = min(amount, v.Used)
	switch p.Limit.Algorithm {
	case sluice.SlidingWindow:
		if p.part(since) < v.Time-parts {
			return 0
		}
	case sluice.FixedWindow:
		if since < v.Time {
			return 0
		}
	}
	if amount <= 0 {
		return 0
	}
	p.commit(s, v)
	if p.Limit.Algorithm == sluice.SlidingWindow {
		refundSliding(s, v, amount)
	}
	s.Used -= amount
	if s.Used == 0 {
		s.Rem = 0
	}
	s.Consumed = Saturate(s.Consumed - amount)
	return amount
}

// Reset forgets all but what nodes hold.
func (p *Spec) Reset(s *State, v View) {
	p.commit(s, v)
	s.Used, s.Rem, s.Consumed = 0, 0, 0
	if s.Ext != nil {
		clear(s.Ext.Counts)
		s.Ext.Flights = nil
		s.Ext.Recalled, s.Ext.RecallCost = 0, 0
	}
}

// commit writes v into s.
func (p *Spec) commit(s *State, v View) {
	switch p.Limit.Algorithm {
	case sluice.SlidingWindow:
		p.commitSliding(s, v)
	case sluice.Concurrency:
		commitFlights(s, v)
	default:
		if s.Ext != nil {
			p.commitHolds(s, v)
		}
	}
	s.Used, s.Rem, s.Time = v.Used, v.Rem, v.Time
}

// Saturate keeps a counter within the range that every store can keep.
func Saturate(n int64) int64 {
	const most = 1<<53 - 1
	return min(max(n, -most), most)
}

// LastTaken is when s was last changed, as exactly as it is known: for a
// window, the start of the part that was.
func (p *Spec) LastTaken(s *State) int64 {
	if p.Limit.Algorithm == sluice.SlidingWindow {
		return p.partStart(s.Time)
	}
	return s.Time
}
