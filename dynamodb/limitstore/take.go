package limitstore

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Take decides t.
func (s *Store) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	specs, err := compile(t.Demands)
	if err != nil {
		return err
	}
	if isPlain(t) {
		return s.takePlain(ctx, t, specs, d)
	}
	return s.change(ctx, subjects(t.Demands), t.ID, func(c *change) error {
		if c.receipt == nil {
			_, err := c.take(t, specs, d)
			return err
		}
		return c.takeOnce(t, specs, d)
	})
}

// subjects returns what demands are about, each once.
func subjects(demands []sluice.Demand) []subject {
	all := make([]subject, 0, len(demands))
	for i := range demands {
		if s := subjectOf(&demands[i].Key); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// takeOnce takes, or peeks, unless a take with this id has been and still stands. One
// that was released is as if it had never been.
func (c *change) takeOnce(t *sluice.Take, specs []*bucket.Spec, d *sluice.Decision) error {
	r, err := c.receipt.valid(c.now)
	if err != nil {
		return err
	}
	if r != nil && r.closed != sluice.Release {
		return r.replay(t, d, c.now)
	}
	c.first = true
	at, err := c.take(t, specs, d)
	if err != nil || t.Peek {
		return err
	}
	if r := newReceipt(t, d, at, at+t.Keep.Microseconds()); r != nil {
		c.receipt.keep(r)
	}
	return nil
}

// take decides t and returns at which time.
func (c *change) take(t *sluice.Take, specs []*bucket.Spec, d *sluice.Decision) (at int64, err error) {
	places := make([]place, len(specs))
	at = c.now
	for i := range places {
		k := &t.Demands[i].Key
		if places[i], err = c.item(k).open(k, specs[i], c.now); err != nil {
			return at, err
		}
		p := &places[i]
		at = max(at, p.view.Now) // time never runs backwards for a bucket
		if t.Ticket.ID != (sluice.HoldID{}) {
			p.ticket = p.spec.Stand(&p.state, &p.view, t.Ticket.ID, t.Ticket.Rank.Microseconds())
		}
	}
	results := slices.Grow(d.Results[:0], len(places))[:len(places)]
	*d = sluice.Decision{ID: t.ID, Source: sluice.FromStore, Time: time.UnixMicro(at), Demands: t.Demands, Results: results}
	decide(places, t, d)
	expires := at + t.Keep.Microseconds()
	for i := range places {
		p, res := &places[i], &d.Results[i]
		if !t.Peek {
			p.carryOut(t, &t.Demands[i], d.Allowed, res, expires)
		}
		if !res.Fits {
			res.RetryAfter = duration(p.spec.RetryIn(&p.state, p.view, p.ask))
		}
		res.Remaining, res.Free = sluice.Thousandths(p.view.Remaining()), sluice.Thousandths(p.view.Free())
		res.ResetAfter = duration(p.spec.ResetIn(&p.state, p.view))
	}
	if t.Ticket.ID != (sluice.HoldID{}) && !t.Peek {
		line(places, t, d)
	}
	d.Conclude()
	for i := range places {
		p := &places[i]
		p.keep()
		if p.left && !d.Allowed { // what it wanted is there for others
			c.room = append(c.room, *p.key)
		}
	}
	return at, nil
}

// decide fills in whether each demand fits, and whether the take is allowed.
func decide(places []place, t *sluice.Take, d *sluice.Decision) {
	d.Allowed = true
	asks(places, t)
	for i := range places {
		p := &places[i]
		fits := p.ask <= p.view.Available()
		d.Results[i] = sluice.Result{Fits: fits, Held: !fits && p.view.ForHeld(p.ask)}
		if !fits && !t.Demands[i].Shadow {
			d.Allowed = false
		}
	}
}

// asks sets what is asked of each bucket. A take up to an amount asks for what every
// limit that can refuse has room for, in whole tokens unless it is all of it; or if
// that is nothing, for what it would have been content with.
func asks(places []place, t *sluice.Take) {
	for i := range places {
		places[i].ask = t.Demands[i].Charge().Thousandths()
	}
	if !t.UpTo {
		return
	}
	want := places[0].ask
	room := want
	for i := range places {
		if !t.Demands[i].Shadow {
			room = min(room, places[i].view.Available())
		}
	}
	grant := bucket.Grant(want, room)
	for i := range places {
		places[i].ask = grant
	}
}

// carryOut does to one bucket what the decision means for it.
func (p *place) carryOut(t *sluice.Take, dm *sluice.Demand, allowed bool, res *sluice.Result, expires int64) {
	cost := int64(0)
	switch {
	case allowed && res.Fits:
		cost = p.ask
	case !allowed && dm.CountRefused && dm.Limit.Algorithm != sluice.Concurrency:
		cost = dm.Charge().Thousandths()
	case !allowed && !res.Fits && !dm.Shadow:
		p.changed = p.spec.Recall(&p.state, p.view, p.ask) || p.repaced
	}
	if cost == 0 {
		return
	}
	if dm.Limit.Algorithm == sluice.Concurrency {
		p.spec.Board(&p.state, p.view, bucket.Holder{ID: t.ID, Cost: cost, Expires: expires})
	} else {
		cost = p.spec.Take(&p.state, p.view, cost)
	}
	p.view.Used += cost
	p.changed = true
	res.Consumed = sluice.Thousandths(cost)
}

// line puts the take's ticket where it has to wait, and out of where it has not.
func line(places []place, t *sluice.Take, d *sluice.Decision) {
	waits := !d.Allowed
	for i := range places {
		waits = waits && (t.Demands[i].Shadow || places[i].ask <= places[i].spec.Capacity)
	}
	for i := range places {
		p := &places[i]
		if !waits || d.Results[i].Fits || t.Demands[i].Shadow {
			if p.spec.Leave(&p.state, p.view, t.Ticket.ID) {
				p.changed, p.left = true, true
			}
			continue
		}
		p.ticket.Cost, p.ticket.Expires = p.ask, p.view.Now+bucket.TicketLife.Microseconds()
		p.spec.Queue(&p.state, p.view, p.ticket)
		p.changed = true
	}
}
