package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
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
	defer s.exit(places)
	s.answer(d, changes, now)
	for i := range places {
		places[i].adjust(int64(changes[i].Cost), now, &d.Results[i])
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
func (s *Store) answer(d *sluice.Decision, demands []sluice.Demand, now int64) {
	results := slices.Grow(d.Results[:0], len(demands))[:len(demands)]
	*d = sluice.Decision{Allowed: true, Time: time.UnixMicro(now), Demands: demands, Results: results}
}

// adjust consumes n, or refunds it if negative, of what was taken at since.
func (p *place) adjust(n, since int64, res *sluice.Result) {
	switch {
	case n > 0:
		n = p.spec.Take(&p.state, p.view, n)
		p.changed = true
	case n < 0:
		n = -p.spec.Refund(&p.state, p.view, -n, since)
		p.changed = true
	}
	p.view.Used += n
	p.report(n, res)
}

// report fills in a result after n was consumed.
func (p *place) report(n int64, res *sluice.Result) {
	*res = sluice.Result{
		Fits:       true,
		Consumed:   sluice.Tokens(n),
		Remaining:  sluice.Tokens(p.view.Available()),
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
	if r == nil || !r.lease || r.expires <= now {
		return closed(st.ID)
	}
	if r.closed != sluice.Adjust {
		if r.closed != st.Action {
			return closed(st.ID)
		}
		s.answer(d, nil, now) // a repetition
		d.ID = st.ID
		return nil
	}
	costs, err := r.costs(st)
	if err != nil {
		return err
	}
	demands := r.decision.Demands
	places, err := s.enterAll(demands, now)
	if err != nil {
		return err
	}
	defer s.exit(places)
	s.answer(d, demands, now)
	d.ID = st.ID
	for i := range places {
		p, res := &places[i], &d.Results[i]
		if demands[i].Limit.Algorithm == sluice.Concurrency {
			p.settleFlight(st, now, res)
			continue
		}
		n := int64(costs[i] - r.charges[i])
		p.adjust(n, r.taken, res)
		r.charges[i] = costs[i]
	}
	switch st.Action {
	case sluice.Commit, sluice.Release:
		r.closed = st.Action
	case sluice.Renew:
		r.expires = now + st.Keep.Microseconds()
		rs.keepUntil(st.ID, r.expires)
	}
	d.Conclude()
	return nil
}

func closed(id string) error { return fmt.Errorf("lease %q: %w", id, sluice.ErrLeaseClosed) }

// costs is what the lease is to cost in each of its buckets.
func (r *receipt) costs(st *sluice.Settlement) ([]sluice.Tokens, error) {
	costs := slices.Clone(r.charges)
	for _, c := range st.Costs {
		found := false
		for i := range r.decision.Demands {
			dm := &r.decision.Demands[i]
			if dm.Key.Limit != c.Limit {
				continue
			}
			found = true
			if dm.Limit.Algorithm == sluice.Concurrency && c.Cost != r.charges[i] {
				return nil, &sluice.FieldError{Field: "lease.costs", Value: c.Limit, Reason: "a place in flight cannot be adjusted, only freed"}
			}
			costs[i] = c.Cost
		}
		if !found {
			return nil, &sluice.FieldError{Field: "lease.costs", Value: c.Limit, Reason: "is not a limit of this lease"}
		}
	}
	if st.Action == sluice.Release {
		clear(costs)
	}
	return costs, nil
}

// settleFlight frees or extends the lease's place in a concurrency limit.
func (p *place) settleFlight(st *sluice.Settlement, now int64, res *sluice.Result) {
	var freed int64
	switch st.Action {
	case sluice.Commit, sluice.Release:
		freed = p.spec.Alight(&p.state, p.view, st.ID)
		p.view.Used -= freed
		p.changed = p.changed || freed > 0
	case sluice.Renew:
		p.spec.Extend(&p.state, p.view, st.ID, now+st.Keep.Microseconds())
		p.changed = true
	}
	p.report(-freed, res)
}

// Reset makes buckets as new.
func (s *Store) Reset(ctx context.Context, keys []sluice.Key) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	now := s.clock.now()
	for i := range keys {
		var p place
		p.name(s, &keys[i])
		sh := &s.shards[p.shard]
		sh.mu.Lock()
		if at := sh.find(&s.scopes, p.hash, &keys[i], p.entity); at >= 0 {
			spec := s.scopes.get(sh.entries[at].scope).spec
			st := sh.state(at)
			spec.Reset(&st, spec.View(&st, now))
			s.bytes.Add(sh.put(at, &st))
		}
		sh.mu.Unlock()
	}
	return nil
}
