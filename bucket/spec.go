package bucket

import (
	"math"
	"slices"
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
	s := &Spec{Limit: l, Capacity: l.Capacity().Thousandths()}
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

	// Consumed is net consumption since the bucket was last full, whatever
	// has been refilled since. A store forgets it with a state that is idle.
	Consumed int64

	Ext *Ext // nil for most buckets
}

// Ext is what only some buckets need.
type Ext struct {
	Counts  []int64  // sliding window: a ring of SubWindows+1 counts, by number modulo its length
	Holders []Holder `json:"Flights"` // concurrency, in order of expiry; snapshots of memory know them by this name
	Holds   []Hold   // in order of expiry
	Tickets []Ticket // in the order in which they are served

	// Until Recalled nothing is held in advance, because a take of
	// RecallCost was refused for what is held.
	Recalled   int64
	RecallCost int64
}

// Clone returns a copy that shares nothing with x, and nil if x is nil.
func (x *Ext) Clone() *Ext {
	if x == nil {
		return nil
	}
	c := *x
	c.Counts, c.Holders, c.Holds, c.Tickets = slices.Clone(x.Counts), slices.Clone(x.Holders), slices.Clone(x.Holds), slices.Clone(x.Tickets)
	return &c
}

// Holder is a lease that is in flight under a concurrency limit. A [Hold] is
// something else.
type Holder struct {
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

	Ahead   int64 // what those want who are before in line
	Tickets int   // how many are in line

	capacity   int64
	behind     int64 // for how long the clock has yet to reach Now
	aheadEnds  int64 // when the first ticket before expires
	ticketsEnd int64 // when the last ticket expires
}

// Remaining is what is not used; negative is debt.
func (v *View) Remaining() int64 { return v.capacity - v.Used }

// Free is what is neither used nor held.
func (v *View) Free() int64 { return v.capacity - v.Used - v.Held }

// Available is the most that can be taken now, by whoever comes after all who
// are before in line.
func (v *View) Available() int64 { return v.capacity - v.Used - v.Held - v.Ahead }

// Idle reports whether the state equals an absent one.
func (v *View) Idle() bool { return v.Used == 0 && v.Held == 0 }

// View brings s to now, as somebody sees it who has no ticket; see
// [Spec.Stand].
func (p *Spec) View(s *State, now int64) (v View) {
	switch p.Limit.Algorithm {
	case sluice.SlidingWindow:
		v = p.viewSliding(s, now)
	case sluice.FixedWindow:
		v = p.viewFixed(s, now)
	case sluice.Concurrency:
		v = p.viewHolders(s, now)
	default:
		v = p.viewTokens(s, now)
	}
	v.behind = v.Now - now
	if s.Ext != nil {
		s.stand(&v, nil)
	}
	return v
}

// RetryIn is in how many microseconds cost could be taken if nothing else
// happens: 0 if it fits, [Never] if it cannot ever. While the clock is behind
// the bucket's time, that is the time until it has caught up, and then.
func (p *Spec) RetryIn(s *State, v View, cost int64) int64 {
	return v.later(p.retryIn(s, v, cost))
}

// retryIn is RetryIn as of v.Now.
func (p *Spec) retryIn(s *State, v View, cost int64) int64 {
	if cost <= v.Available() {
		return 0
	}
	if cost > p.Capacity {
		return Never
	}
	if v.Ahead > 0 {
		if p.Limit.Algorithm == sluice.TokenBucket {
			v.Used += v.Ahead // as if they had been served
		} else if cost <= v.Free() {
			return v.aheadEnds - v.Now // they may be served any moment, or have gone
		}
	}
	return p.until(s, v, p.Capacity-cost)
}

// ResetIn is in how many microseconds nothing is used any more if nothing else
// happens. What nodes hold is not used, and may come back at any moment: it
// does not count.
func (p *Spec) ResetIn(s *State, v View) int64 {
	if v.Used == 0 {
		return 0
	}
	v.Held = 0
	return v.later(p.until(s, v, 0))
}

// later is a wait from v.Now as one from the clock's time.
func (v *View) later(wait int64) int64 {
	if wait == 0 || wait == Never {
		return wait
	}
	return min(wait+v.behind, Forever)
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
		wait = untilHolders(s, v, target)
	default:
		wait = p.untilTokens(s, v, target)
	}
	return min(wait, Forever)
}

// Take consumes cost at v, unconditionally: what is beyond the capacity is
// debt, of at most sluice.MaxThousandths. v must be the View of s. It answers what
// was consumed, which the cap on debt may make less than cost.
//
// Concurrency is taken with [Spec.Board] instead.
func (p *Spec) Take(s *State, v View, cost int64) int64 {
	cost = max(0, min(cost, p.Capacity+sluice.MaxThousandths-v.Used))
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
// answers how much came back. Windows give back only what they still count; a
// token bucket is filled at most. All of amount is no longer consumed,
// whatever came back.
func (p *Spec) Refund(s *State, v View, amount, since int64) int64 {
	amount = max(amount, 0)
	s.Consumed = max(s.Consumed-amount, 0)
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
	return amount
}

// Reset forgets all but what nodes hold.
func (p *Spec) Reset(s *State, v View) {
	p.commit(s, v)
	s.Used, s.Rem, s.Consumed = 0, 0, 0
	if s.Ext != nil {
		clear(s.Ext.Counts)
		s.Ext.Holders = nil
		s.Ext.Recalled, s.Ext.RecallCost = 0, 0
	}
}

// commit writes v into s.
func (p *Spec) commit(s *State, v View) {
	switch p.Limit.Algorithm {
	case sluice.SlidingWindow:
		p.commitSliding(s, v)
	case sluice.Concurrency:
		commitHolders(s, v)
	default:
		if s.Ext != nil {
			p.commitHolds(s, v)
		}
	}
	s.Used, s.Rem, s.Time = v.Used, v.Rem, v.Time
	if s.Ext != nil {
		s.removeTicket(v, sluice.HoldID{})
		s.dropExt(p)
	}
}

// Saturate keeps a counter within the range that every store can keep.
func Saturate(n int64) int64 {
	const most = 1<<53 - 1
	return min(max(n, -most), most)
}

// LastTaken is when s was last taken from or changed otherwise, or the zero
// time for windows, which keep only when they began.
func (p *Spec) LastTaken(s *State) (t time.Time) {
	if p.Limit.Algorithm == sluice.TokenBucket || p.Limit.Algorithm == sluice.Concurrency {
		t = time.UnixMicro(s.Time)
	}
	return t
}

// Touched is when s was last changed, or not long before: for a window, the
// start of the part that was.
func (p *Spec) Touched(s *State) int64 {
	if p.Limit.Algorithm == sluice.SlidingWindow {
		return p.partStart(s.Time)
	}
	return s.Time
}
