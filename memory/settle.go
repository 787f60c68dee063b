package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Adjust consumes or refunds unconditionally.
func (s *Store) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	now := s.clock.now()
	places, err := s.enterAll(changes, now)
	if err != nil {
		return err
	}
	defer s.watchers.settled(d, false)
	defer s.exit(places)
	s.answer(d, changes, places, now)
	for i := range places {
		p := &places[i]
		consumed, returned := p.adjust(changes[i].Cost.Thousandths(), p.view.Now)
		p.report(&d.Results[i], consumed, returned)
	}
	d.Conclude()
	return nil
}

// enterAll enters the places of demands.
func (s *Store) enterAll(demands []sluice.Demand, now int64) ([]place, error) {
	places := make([]place, len(demands))
	for i := range places {
		places[i].name(s, &demands[i].Key)
	}
	return places, s.enter(places, demands, now)
}

// answer prepares a decision that cannot be a refusal.
func (s *Store) answer(d *sluice.Decision, demands []sluice.Demand, places []place, at int64) {
	for i := range places {
		at = max(at, places[i].view.Now)
	}
	results := slices.Grow(d.Results[:0], len(demands))[:len(demands)]
	*d = sluice.Decision{Allowed: true, Time: time.UnixMicro(at), Demands: demands, Results: results}
}

// adjust consumes n, or refunds it if negative, of what was taken at since.
// It answers by how much consumption changed, and what came back.
func (p *place) adjust(n, since int64) (consumed, returned int64) {
	switch {
	case n > 0:
		n = p.spec.Take(&p.state, p.view, n)
		p.changed = true
		p.view.Used += n
	case n < 0:
		before := p.state.Consumed
		returned = p.spec.Refund(&p.state, p.view, -n, since)
		p.changed = p.changed || p.adopted || returned != 0 || p.state.Consumed != before
		p.view.Used -= returned
	}
	return n, returned
}

// report fills in a result.
func (p *place) report(res *sluice.Result, consumed, returned int64) {
	*res = sluice.Result{
		Fits:       true,
		Consumed:   sluice.Thousandths(consumed),
		Returned:   sluice.Thousandths(returned),
		Remaining:  sluice.Thousandths(p.view.Remaining()),
		Free:       sluice.Thousandths(p.view.Free()),
		ResetAfter: duration(p.spec.ResetIn(&p.state, p.view)),
	}
}

// Settle changes or closes a lease.
func (s *Store) Settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	rs := s.receiptsOf(st.ID)
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := s.clock.now()
	r := rs.byID[st.ID]
	if r == nil || !r.lease || r.expires <= now || r.closed != sluice.Adjust && r.closed != st.Action {
		return fmt.Errorf("lease %q: %w", st.ID, sluice.ErrLeaseClosed)
	}
	costs := r.charges
	again := r.closed != sluice.Adjust
	if !again {
		var err error
		if costs, err = r.costs(st); err != nil {
			return err
		}
	}
	demands, places, err := s.reenter(r.take.Demands, now)
	if err != nil {
		return err
	}
	defer s.watchers.settled(d, st.Action == sluice.Commit || st.Action == sluice.Release)
	defer s.exit(places)
	s.answer(d, demands, places, now)
	d.ID, d.Taken = st.ID, time.UnixMicro(r.taken)
	expires := r.expires
	if st.Action == sluice.Renew {
		expires = d.Time.UnixMicro() + max(st.Keep.Microseconds(), 1)
	}
	for i := range places {
		p, change := &places[i], (costs[i] - r.charges[i])
		consumed, returned := int64(0), int64(0)
		flies, flew := p.spec.Limit.Algorithm == sluice.Concurrency, r.take.Demands[i].Limit.Algorithm == sluice.Concurrency
		switch {
		case again, r.decision.Results[i].Consumed.Thousandths() == 0, flew && !flies:
		case flies && !flew:
			consumed = change // the bucket was started anew; nothing of the lease is in it
		case flies:
			returned = p.settleHolder(st, expires)
			consumed = -returned
		default:
			consumed, returned = p.adjust(change, r.taken)
		}
		p.report(&d.Results[i], consumed, returned)
		demands[i].Cost = sluice.Thousandths(costs[i])
	}
	r.charges = costs
	if st.Action == sluice.Commit || st.Action == sluice.Release {
		r.closed = st.Action
	}
	if expires != r.expires {
		r.expires = expires
		rs.keepUntil(st.ID, expires)
	}
	d.Conclude()
	return nil
}

// reenter enters the places of a lease under the limits that their buckets
// have now. It does not mind the bounds: the lease has been let in.
func (s *Store) reenter(taken []sluice.Demand, now int64) ([]sluice.Demand, []place, error) {
	demands, places := slices.Clone(taken), make([]place, len(taken))
	for i := range places {
		places[i].name(s, &demands[i].Key)
	}
	s.lock(places)
	for i := range places {
		p, dm := &places[i], &demands[i]
		s.open(p, &dm.Key, i, len(places), now)
		switch {
		case p.offset == 0:
		case !p.gone():
			dm.Limit = p.spec.Limit
		default: // as if it were not there
			if err := p.adopt(s, dm); err != nil {
				s.exit(places)
				return nil, nil, err
			}
			p.state = bucket.State{Consumed: p.state.Consumed}
			p.view = p.spec.View(&p.state, now)
		}
	}
	if err := s.group(places, demands, now); err != nil {
		s.exit(places)
		return nil, nil, err
	}
	return demands, places, nil
}

// gone reports whether the bucket might as well not be there.
func (p *place) gone() bool { return p.view.Idle() && !p.state.Recalled(p.view) }

// costs is what the lease is to cost in each of its buckets.
func (r *receipt) costs(st *sluice.Settlement) ([]int64, error) {
	costs := slices.Clone(r.charges)
	for _, c := range st.Costs {
		found := false
		for i := range r.take.Demands {
			dm := &r.take.Demands[i]
			if dm.Key.Limit != c.Limit {
				continue
			}
			found = true
			if dm.Limit.Algorithm == sluice.Concurrency && c.Cost.Thousandths() != r.charges[i] {
				return nil, bucket.LeaseCostError(c.Limit, true)
			}
			if r.decision.Results[i].Consumed.Thousandths() > 0 {
				costs[i] = c.Cost.Thousandths()
			}
		}
		if !found {
			return nil, bucket.LeaseCostError(c.Limit, false)
		}
	}
	if st.Action == sluice.Release {
		clear(costs)
	}
	return costs, nil
}

// settleHolder frees or extends the lease's place in a concurrency limit, and
// answers what was refunded: committing is no refund.
func (p *place) settleHolder(st *sluice.Settlement, expires int64) int64 {
	p.changed = true
	switch st.Action {
	case sluice.Commit:
		p.view.Used -= p.spec.Alight(&p.state, p.view, st.ID)
	case sluice.Release:
		freed := p.spec.Alight(&p.state, p.view, st.ID)
		p.view.Used -= freed
		return freed
	case sluice.Renew:
		p.spec.Extend(&p.state, p.view, st.ID, expires)
	default:
		p.changed = false
	}
	return 0
}

// Reset makes buckets as new, all at once.
func (s *Store) Reset(ctx context.Context, keys []sluice.Key) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	now := s.clock.now()
	places := make([]place, len(keys))
	for i := range keys {
		places[i].name(s, &keys[i])
	}
	s.lock(places)
	for i := range places {
		p := &places[i]
		if s.open(p, &keys[i], i, len(places), now); p.offset > 0 {
			p.spec.Reset(&p.state, p.view)
			p.changed = true
		}
	}
	s.exit(places)
	for i := range keys {
		s.watchers.tell(&keys[i])
	}
	return nil
}
