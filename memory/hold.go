package memory

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Hold grants tokens in advance.
func (s *Store) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	for i := range requests {
		if err := requests[i].Limit.Validate(); err != nil {
			return err
		}
	}
	now := s.clock.now()
	for i := range requests {
		if err := s.hold(&requests[i], &grants[i], now); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) hold(r *sluice.HoldRequest, g *sluice.Grant, now int64) error {
	if r.Previous != (sluice.HoldID{}) {
		s.giveBack(&r.Key, r.Previous, r.Spent.Thousandths(), now)
	}
	places, err := s.enterAll([]sluice.Demand{{Key: r.Key, Limit: r.Limit}}, now)
	if err != nil {
		return err
	}
	defer s.exit(places)
	p := &places[0]
	least := max(r.Min.Thousandths(), 1)
	*g = sluice.Grant{Now: time.UnixMicro(p.view.Now), Recalled: p.state.Recalled(p.view)}
	if n := p.spec.Grantable(&p.state, p.view, least, r.Max.Thousandths()); n > 0 {
		h := bucket.Hold{ID: r.ID, Amount: n, Expires: p.view.Now + r.TTL.Microseconds()}
		g.Amount = sluice.Thousandths(n)
		g.Expires = time.UnixMicro(p.spec.Hold(&p.state, p.view, h))
		p.view.Held += n
		p.changed = true
	} else {
		g.Held = p.spec.Holdable() && p.view.ForHeld(least)
		g.RetryIn = duration(p.spec.HoldableIn(&p.state, p.view, least))
	}
	g.Remaining, g.Free = sluice.Thousandths(p.view.Remaining()), sluice.Thousandths(p.view.Free())
	return nil
}

// Return closes holds and removes tickets.
func (s *Store) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	now := s.clock.now()
	for i := range returns {
		r := &returns[i]
		s.giveBack(&r.Key, r.ID, r.Spent.Thousandths(), now)
	}
	return nil
}

// giveBack closes a hold or removes a ticket, under the limit that the bucket
// has.
func (s *Store) giveBack(k *sluice.Key, id sluice.HoldID, spent int64, now int64) {
	var places [1]place
	p := &places[0]
	p.name(s, k)
	s.lock(places[:])
	if s.open(p, k, 0, 1, now); p.offset > 0 {
		p.changed = p.spec.Leave(&p.state, p.view, id) || p.spec.Return(&p.state, p.view, id, spent)
	}
	changed := p.changed
	s.exit(places[:])
	if changed {
		s.watchers.tell(k)
	}
}
