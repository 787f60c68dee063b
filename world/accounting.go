package world

import (
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// accounting checks that usage is the cost of what was taken less what was
// given back, whatever refill did meanwhile, in the hour of the take; that each
// take counts once; and that the lifetime counter does not forget.
//
// What is expected follows from what callers asked and from whether they were
// told that it was done, never from what the answers say was consumed: a take
// is its cost, or what was granted of it; a refund is what was asked to be
// refunded; a settlement is the new cost less the one before.
//
// Tolerance: none without a crash or an unknown outcome. What a node that was
// killed, or could not write when it was closed, had counted and not yet
// written may be missing, and what one that was closed did for callers that
// were still there. If it is not known
// whether a settlement happened, the one after it changes by as much less or
// more. A lease that was given because nobody knew whether the store had counted
// it may exist twice, so either of the two is settled; and one whose taker was
// told only when it asked again was booked by nobody. What a lease costs after
// the store forgot acknowledged writes is not known. Of an entity that was erased nothing is expected.
func (w *World) accounting() (failures []Failure) {
	expected := map[series]*account{}
	leases := map[string]*lease{}
	for _, t := range w.told {
		w.book(expected, leases, t)
	}
	written := map[series]int64{}
	takes := map[series]int64{}
	for s, row := range w.ledger.rows {
		if s.span == catalog.Hourly {
			written[s], takes[s] = row.Amount, row.Count
			if expected[s] == nil {
				expected[s] = &account{}
			}
		}
	}
	for s, a := range expected {
		got := written[s]
		if a.less == 0 && a.more == 0 && takes[s] != a.takes && !w.ledger.erased[s.entity] {
			failures = append(failures, Failure{"accounting", a.last, fmt.Sprintf("%s/%s: %d takes are written, and there were %d", s.entity, s.limit, takes[s], a.takes)})
		}
		if w.ledger.erased[s.entity] || got >= a.sum-a.less && got <= a.sum+a.more {
			continue
		}
		failures = append(failures, Failure{"accounting", a.last, fmt.Sprintf(
			"%s/%s in the hour of %s: %s is written, and %s was taken less what was given back (%s less or %s more is excused)",
			s.entity, s.limit, time.Unix(s.start, 0).UTC().Format(time.DateTime), sluice.Thousandths(got), sluice.Thousandths(a.sum), sluice.Thousandths(a.less), sluice.Thousandths(a.more))})
	}
	return append(failures, w.totals()...)
}

// totals checks that the lifetime counter is the sum of all hours, however
// often a bucket was full in between.
func (w *World) totals() (failures []Failure) {
	sums := map[series]int64{}
	for s, row := range w.ledger.rows {
		switch s.span {
		case catalog.Hourly:
			sums[series{entity: s.entity, limit: s.limit}] += row.Amount
		case catalog.Total:
			sums[series{entity: s.entity, limit: s.limit}] -= row.Amount
		}
	}
	for s, off := range sums {
		if off != 0 {
			failures = append(failures, Failure{"accounting", 0, fmt.Sprintf("%s/%s: the lifetime counter differs from the sum of all hours by %s", s.entity, s.limit, sluice.Thousandths(off))})
		}
	}
	return failures
}

// account is what should be written of one series.
type account struct {
	sum        int64
	less, more int64 // that may be written
	takes      int64
	last       time.Duration // it was changed
}

// lease is what a caller knows of its own.
type lease struct {
	at     time.Duration
	taken  time.Time
	stored []time.Time // if the store may have it too: when it may have been taken there
	asked  []int64
	took   []int64
	cost   []int64 // now
	unsure []int64 // by how much it may be another
	keys   []sluice.Key
	ended  bool
	maybe  bool // it may have ended
}

// book books what a caller was told.
func (w *World) book(all map[series]*account, leases map[string]*lease, t *Told) {
	if t.Lost && t.Settled == nil {
		return
	}
	d := &t.Decision
	switch {
	case t.Take != nil:
		if t.Err != nil || !d.Allowed || d.Repeated && !t.Take.Lease || t.Take.Peek {
			return
		}
		le := &lease{taken: d.Time}
		for i := range t.Take.Demands {
			dm := &t.Take.Demands[i]
			cost := dm.Charge().Thousandths()
			if t.Take.UpTo {
				cost = min(cost, d.Granted.Thousandths())
			}
			if dm.Shadow { // it counts what fits, and nothing without the store
				cost = d.Results[i].Consumed.Thousandths()
			}
			le.asked = append(le.asked, dm.Charge().Thousandths())
			le.took, le.cost, le.unsure = append(le.took, cost), append(le.cost, cost), append(le.unsure, 0)
			le.keys = append(le.keys, dm.Key)
			if dm.Limit.Algorithm != sluice.Concurrency && !d.Repeated {
				w.bookOne(all, t, dm.Key, d.Time, cost, true)
			}
		}
		le.at = t.Return.At
		if d.Source == sluice.Unknown || d.Repeated {
			for _, e := range w.byCaller()[t.Caller] {
				le.stored = append(le.stored, e.Decision.Time)
			}
		}
		if t.Take.Lease {
			leases[t.Take.ID] = le
		}
	case t.Settled != nil:
		if le := leases[t.Settled.ID]; le != nil {
			w.bookSettlement(all, le, t)
		}
	case t.Err == nil:
		for i := range t.Changes {
			w.bookOne(all, t, t.Changes[i].Key, d.Time, t.Changes[i].Cost.Thousandths(), false)
		}
	}
}

func (w *World) bookSettlement(all map[series]*account, le *lease, t *Told) {
	for i, key := range le.keys {
		if w.bucket(key).Limit.Algorithm == sluice.Concurrency || le.took[i] == 0 && le.stored == nil {
			continue // a shadow that did not fit is left alone
		}
		cost := le.cost[i]
		for _, c := range t.Settled.Costs {
			if c.Limit == key.Limit {
				cost = c.Cost.Thousandths()
			}
		}
		if t.Settled.Action == sluice.Release {
			cost = 0
		}
		change := cost - le.cost[i]
		for _, at := range append(le.stored, le.taken) {
			if le.stored != nil {
				a := accountOf(all, seriesOf(key, at))
				a.less += max(cost, le.asked[i])
				a.more += max(cost, le.asked[i])
			}
		}
		for _, forgot := range w.store.forgot {
			if a := accountOf(all, seriesOf(key, le.taken)); forgot.At > le.at && forgot.At < t.Return.At {
				a.less += max(cost, le.took[i])
				a.more += max(cost, le.took[i])
			}
		}
		if le.took[i] == 0 {
			continue
		}
		if t.Err != nil || t.Lost {
			// It happened, or it did not. Either way it may be that nobody booked it.
			le.unsure[i] += max(change, -change)
			continue
		}
		if le.ended {
			change = 0
		}
		w.bookOne(all, t, key, le.taken, change, false)
		u := le.unsure[i]
		if le.maybe { // then this changes nothing
			u += max(change, -change)
		}
		a := accountOf(all, seriesOf(key, le.taken))
		a.less += u
		a.more += u
		le.unsure[i] = 0
		le.cost[i] = cost
	}
	if t.Settled.Action == sluice.Commit || t.Settled.Action == sluice.Release {
		unknown := t.Err != nil || t.Lost
		le.ended = le.ended || !unknown
		le.maybe = le.maybe || unknown
	}
}

func seriesOf(k sluice.Key, at time.Time) series {
	return series{k.Entity, k.Limit, catalog.Hourly, at.UTC().Truncate(time.Hour).Unix()}
}

func (w *World) bookOne(all map[series]*account, t *Told, k sluice.Key, at time.Time, amount int64, take bool) {
	a := accountOf(all, seriesOf(k, at))
	a.sum += amount
	if w.history.keep {
		w.history.add(t.Return.At, "check", fmt.Sprintf("expects %s of %s for caller %d", sluice.Thousandths(amount), k, t.Caller>>16-1))
	}
	a.last = t.Return.At
	if take && amount != 0 {
		a.takes++
	}
	if closed := t.Node.closed; (t.Node.port.dead() || t.Node.unwritten) && t.Return.At > w.ledger.written[t.Node] || closed != 0 && t.Return.At >= closed {
		a.less += max(amount, 0)
		a.more += max(-amount, 0)
	}
}

func accountOf(all map[series]*account, s series) *account {
	a := all[s]
	if a == nil {
		a = &account{}
		all[s] = a
	}
	return a
}

// bucket is the one of a key.
func (w *World) bucket(k sluice.Key) *Bucket {
	for i := range w.plan.Buckets {
		if w.plan.Buckets[i].Key == k {
			return &w.plan.Buckets[i]
		}
	}
	panic("no bucket " + k.String())
}
