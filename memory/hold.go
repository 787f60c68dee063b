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
		if err := s.hold(&requests[i], &grants[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) hold(r *sluice.HoldRequest, g *sluice.Grant) error {
	now := s.clock.now()
	places, err := s.enterAll([]sluice.Demand{{Key: r.Key, Limit: r.Limit}}, now)
	if err != nil {
		return err
	}
	defer s.exit(places)
	p := &places[0]
	if r.Previous != (sluice.HoldID{}) {
		p.giveBack(r.Previous, r.Spent, now)
	}
	*g = sluice.Grant{Recalled: p.state.Recalled(p.view)}
	if n := p.spec.Grantable(&p.state, p.view, int64(r.Min), int64(r.Max)); n > 0 {
		h := bucket.Hold{ID: r.ID, Amount: n, Expires: now + r.TTL.Microseconds()}
		g.Amount = sluice.Tokens(n)
		g.Expires = time.UnixMicro(p.spec.Hold(&p.state, p.view, h))
		p.view.Held += n
		p.changed = true
	} else {
		g.Held = p.view.ForHeld(max(int64(r.Min), 1))
		g.RetryIn = duration(p.spec.RetryIn(&p.state, p.view, max(int64(r.Min), 1)))
	}
	g.Remaining = sluice.Tokens(p.view.Available())
	g.Now = time.UnixMicro(now)
	return nil
}

// giveBack closes a hold and looks at the bucket again.
func (p *place) giveBack(id sluice.HoldID, spent sluice.Tokens, now int64) {
	if p.spec.Return(&p.state, p.view, id, int64(spent)) {
		p.changed = true
	}
	p.view = p.spec.View(&p.state, now)
}

// Return closes holds.
func (s *Store) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	for i := range returns {
		r := &returns[i]
		now := s.clock.now()
		places, err := s.enterAll([]sluice.Demand{{Key: r.Key, Limit: r.Limit}}, now)
		if err != nil {
			return err
		}
		places[0].giveBack(r.ID, r.Spent, now)
		s.exit(places)
	}
	return nil
}
