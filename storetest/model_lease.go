package storetest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// receipt is what is remembered of a take with an ID until it expires: the
// answer, for whoever asks again, and if it is a lease, what can still be
// changed. A take is remembered if it was allowed or consumed anything; a
// refusal without effect may simply be tried again.
type receipt struct {
	take    sluice.Take // with its own copy of the demands
	answer  sluice.Decision
	at      int64 // when it was taken
	expires int64

	lease bool // only what was allowed
	ended bool
	end   sluice.Action // Commit or Release, once ended
	costs []int64       // what the lease now costs in each bucket
}

// remembered is the receipt of that id, if it has not expired. A committed
// lease still answers repeated takes until then; afterwards the id is free
// again.
func (m *Model) remembered(id string, now int64) *receipt {
	r := m.receipts[id]
	if r == nil || r.expires <= now {
		return nil
	}
	return r
}

// released reports whether the take was undone. It is as if it had never
// been, so a take with its id is a new one: answering "allowed" again would
// let pass what nobody has paid for.
func (r *receipt) released() bool { return r.ended && r.end == sluice.Release }

func (m *Model) remember(t *sluice.Take, p *plan) {
	r := &receipt{
		take:    *t,
		answer:  sluice.Decision{Allowed: p.allowed, ID: t.ID},
		at:      p.at,
		expires: p.expires(t),
		lease:   p.allowed && t.Lease,
		costs:   make([]int64, len(p.results)),
	}
	r.take.Demands = slices.Clone(t.Demands)
	r.answer.Results = slices.Clone(p.results)
	effect := p.allowed
	for i := range p.results {
		r.costs[i] = p.results[i].Consumed.Thousandths()
		effect = effect || r.costs[i] != 0
	}
	if effect {
		m.receipts[t.ID] = r
	}
}

// repeat gives the first take's answer again, of the buckets and by the limits it
// had. What nodes hold is not remembered, and what only says how to answer is as
// it is now; buckets that are not asked for any more are not announced.
func (r *receipt) repeat(t *sluice.Take, d *sluice.Decision, now int64) error {
	if !r.same(t) {
		return sluice.ErrRequestMismatch
	}
	answer := r.answer
	answer.Repeated = true
	answer.Results = slices.Clone(answer.Results)
	for i := range answer.Results {
		answer.Results[i].Free = answer.Results[i].Remaining
	}
	answer.Time = time.UnixMicro(now)
	answer.Demands = slices.Clone(r.take.Demands)
	for i := range answer.Demands {
		dm := &answer.Demands[i]
		now := slices.IndexFunc(t.Demands, func(o sluice.Demand) bool { return o.Key == dm.Key })
		dm.Unannounced, dm.Cost = true, dm.Charge()
		if now >= 0 {
			dm.Unannounced, dm.Level = t.Demands[now].Unannounced, t.Demands[now].Level
			if t.Demands[now].Charge() == dm.Cost {
				dm.Cost = t.Demands[now].Cost
			}
		}
	}
	conclude(d, answer)
	return nil
}

// same reports whether t asks for the same as the take that r is for, in its
// caller's words or else in what it wants of which buckets: up to an amount or
// not, and unless it only looks, a lease or not. The limits, how they are applied
// and how long to remember may differ from one attempt to the next.
func (r *receipt) same(t *sluice.Take) bool {
	if r.take.UpTo != t.UpTo || r.take.Lease != t.Lease && !t.Peek || r.take.Asked != t.Asked {
		return false
	}
	return t.Asked != "" || slices.EqualFunc(r.take.Demands, t.Demands, func(a, b sluice.Demand) bool {
		return a.Key == b.Key && a.Charge() == b.Charge()
	})
}

// Settle changes or ends a lease.
//
//   - Expired, unknown, and not a lease: [sluice.ErrLeaseClosed]. So is an
//     ended lease, except that ending it again the same way changes nothing.
//   - A cost replaces the one before in every bucket of that limit: the
//     difference is refunded as of the time of the take, or consumed. The new
//     cost is remembered even if there was less to refund, so that saying it
//     twice is saying it once.
//   - A bucket that the take consumed nothing from, a shadow's, is left alone.
//   - The cost of concurrency cannot change.
//   - A cost in a limit that the lease does not have, or that cannot change,
//     is an error, and nothing happens.
//   - If a bucket has since become concurrency or has been, it was started
//     anew, and nothing of the lease is in it: the change of cost is booked,
//     and nothing comes back.
//
// The decision names the lease's buckets with the limits they have now and what
// the lease costs there, and says when the lease was taken. Consumed is how net consumption changed, by
// what was asked: committing concurrency frees the place and is no refund.
func (m *Model) Settle(_ context.Context, s *sluice.Settlement, d *sluice.Decision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.begin()
	if err != nil {
		return err
	}
	r := m.remembered(s.ID, now)
	if r == nil || !r.lease || r.ended && s.Action != r.end {
		return sluice.ErrLeaseClosed
	}
	costs := r.costs
	if !r.ended {
		if costs, err = r.settled(s); err != nil {
			return err
		}
	}
	demands, buckets, at := m.leaseBuckets(r, now)
	expires := r.expires
	if s.Action == sluice.Renew {
		expires = at + max(s.Keep.Microseconds(), 1)
	}
	results := make([]sluice.Result, len(buckets))
	for i, w := range buckets {
		results[i].Fits = true
		demands[i].Cost = sluice.Thousandths(costs[i])
		if !r.ended && r.answer.Results[i].Consumed.Thousandths() > 0 {
			change := costs[i] - r.costs[i]
			switch taken := r.take.Demands[i].Limit; {
			case !alike(taken, w.spec.Limit):
				if taken.Algorithm != sluice.Concurrency {
					results[i].Consumed = sluice.Thousandths(change)
				}
			default:
				w.settle(&results[i], r, s.Action, change, expires)
				m.write(w)
			}
		}
		w.fill(&results[i])
	}
	r.costs, r.expires = costs, expires
	if s.Action == sluice.Commit || s.Action == sluice.Release {
		r.ended, r.end = true, s.Action
	}
	conclude(d, sluice.Decision{Allowed: true, ID: s.ID, Time: time.UnixMicro(at), Taken: time.UnixMicro(r.at), Demands: demands, Results: results})
	return nil
}

// settled is what the lease costs in each bucket after s.
func (r *receipt) settled(s *sluice.Settlement) ([]int64, error) {
	costs := slices.Clone(r.costs)
	for _, c := range s.Costs {
		known := false
		for i := range r.take.Demands {
			demand := &r.take.Demands[i]
			if demand.Key.Limit != c.Limit {
				continue
			}
			known = true
			if demand.Limit.Algorithm == sluice.Concurrency && c.Cost.Thousandths() != costs[i] {
				return nil, bucket.LeaseCostError(c.Limit, true)
			}
			if r.answer.Results[i].Consumed.Thousandths() > 0 {
				costs[i] = c.Cost.Thousandths()
			}
		}
		if !known {
			return nil, bucket.LeaseCostError(c.Limit, false)
		}
	}
	if s.Action == sluice.Release {
		clear(costs)
	}
	return costs, nil
}

// leaseBuckets opens the buckets of a lease under the limits they have.
func (m *Model) leaseBuckets(r *receipt, now int64) ([]sluice.Demand, []*working, int64) {
	demands, buckets, at := slices.Clone(r.take.Demands), make([]*working, len(r.costs)), now
	for i := range demands {
		spec, err := bucket.Compile(demands[i].Limit)
		if err != nil {
			panic(err) // it was valid when it was taken
		}
		buckets[i] = m.openAsIs(demands[i].Key, spec, now)
		demands[i].Limit = buckets[i].spec.Limit
		at = max(at, buckets[i].view.Now)
	}
	return demands, buckets, at
}

// alike reports whether a lease taken under one limit is still in a bucket
// that now has the other.
func alike(taken, now sluice.Limit) bool {
	return (taken.Algorithm == sluice.Concurrency) == (now.Algorithm == sluice.Concurrency)
}

// settle changes the lease's part in one bucket, and fills in by how much net
// consumption changed.
func (w *working) settle(res *sluice.Result, r *receipt, a sluice.Action, change, expires int64) {
	if w.spec.Limit.Algorithm != sluice.Concurrency {
		switch {
		case change > 0:
			res.Consumed = sluice.Thousandths(w.consume(change, bucket.Holder{}))
		case change < 0:
			w.refund(res, -change, r.at)
		}
		return
	}
	switch a {
	case sluice.Renew:
		w.spec.Extend(&w.state, w.view, r.take.ID, expires)
	case sluice.Commit:
		w.spec.Alight(&w.state, w.view, r.take.ID)
	case sluice.Release:
		res.Returned = sluice.Thousandths(w.spec.Alight(&w.state, w.view, r.take.ID))
		res.Consumed = sluice.Thousandths(-res.Returned.Thousandths())
	}
	w.look()
}

// Forget removes the receipts of takes from buckets that f names. Full buckets
// are as good as absent here.
func (m *Model) Forget(_ context.Context, f sluice.Forgetting) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.begin(); err != nil {
		return "", err
	}
	maps.DeleteFunc(m.receipts, func(_ string, r *receipt) bool {
		return slices.ContainsFunc(r.take.Demands, func(d sluice.Demand) bool { return f.Names(&d.Key) })
	})
	return "", nil
}
