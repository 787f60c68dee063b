package memory

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Take decides t.
func (s *Store) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if t.ID != "" {
		return s.takeOnce(t, d)
	}
	if s.takePlain(t, d) {
		return nil
	}
	return s.take(t, d, nil)
}

// take decides t; if it has an effect, r gets what a repetition or a
// settlement needs to know.
func (s *Store) take(t *sluice.Take, d *sluice.Decision, r *receipt) error {
	// The places live on the stack; most takes have few demands.
	switch n := len(t.Demands); {
	case n == 1:
		var places [1]place
		return s.takeFrom(places[:], t, d, r)
	case n <= 4:
		var places [4]place
		return s.takeFrom(places[:n], t, d, r)
	default:
		return s.takeFrom(make([]place, n), t, d, r)
	}
}

func (s *Store) takeFrom(places []place, t *sluice.Take, d *sluice.Decision, r *receipt) error {
	for i := range places {
		places[i].name(s, &t.Demands[i].Key)
	}
	now := s.clock.now()
	if err := s.enter(places, t.Demands, now); err != nil {
		return err
	}
	if t.Ticket.ID != (sluice.HoldID{}) {
		defer s.watchers.left(t, d, places) // after the shards are unlocked
	}
	defer s.exit(places)

	at := now
	for i := range places {
		p := &places[i]
		at = max(at, p.view.Now) // time never runs backwards for a bucket
		if t.Ticket.ID != (sluice.HoldID{}) {
			p.ticket = p.spec.Stand(&p.state, &p.view, t.Ticket.ID, t.Ticket.Rank.Microseconds())
		}
	}
	d.Demands, d.ID, d.Source, d.Repeated = t.Demands, t.ID, sluice.FromStore, false
	d.Time, d.Taken = time.UnixMicro(at), time.Time{}
	d.Results = slices.Grow(d.Results[:0], len(places))[:len(places)]
	decide(places, t, d)
	expires := at + t.Keep.Microseconds()
	for i := range places {
		p, dm, res := &places[i], &t.Demands[i], &d.Results[i]
		if !t.Peek {
			p.carryOut(t, dm, d.Allowed, res, expires)
		}
		if res.RetryAfter = 0; !res.Fits {
			res.RetryAfter = duration(p.spec.RetryIn(&p.state, p.view, p.ask))
		}
		res.Remaining, res.Free = sluice.Thousandths(p.view.Remaining()), sluice.Thousandths(p.view.Free())
		res.ResetAfter = duration(p.spec.ResetIn(&p.state, p.view))
	}
	if t.Ticket.ID != (sluice.HoldID{}) && !t.Peek {
		line(places, t, d)
	}
	d.Conclude()
	if r != nil {
		r.record(t, d, at, expires)
	}
	return nil
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

// decide fills in whether each demand fits, and whether the take is allowed.
func decide(places []place, t *sluice.Take, d *sluice.Decision) {
	d.Allowed = true
	asks(places, t)
	for i := range places {
		p, dm := &places[i], &t.Demands[i]
		fits := p.ask <= p.view.Available()
		d.Results[i] = sluice.Result{Fits: fits, Held: !fits && p.view.ForHeld(p.ask)}
		if !fits && !dm.Shadow {
			d.Allowed = false
		}
	}
}

// line puts the take's ticket where it has to wait, and out of where it has
// not.
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

// asks sets what is asked of each bucket. A take up to an amount asks for
// what every limit that can refuse has room for, in whole tokens unless it is
// all of it; or if that is nothing, for what it would have been content with.
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

func duration(us int64) time.Duration {
	if us == bucket.Never {
		return sluice.Never
	}
	return time.Duration(us) * time.Microsecond
}
