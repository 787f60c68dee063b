package storetest

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Take decides in three steps: what is asked of each bucket, whether each has
// room for it, and then, if no enforcing demand is without room, consumption
// of everything.
//
//   - A take that does not say UpTo asks each bucket for the demand's charge.
//     One that does asks all for as much as every enforcing demand has, at
//     most the charge, and in whole tokens if it is less. Where that is
//     nothing the take is refused, and asks for what it would have been
//     content with: one token, or the charge if that is less.
//   - What those want who are before in line is not available: all tickets, to
//     a take without one; those that rank before, to one with a ticket. The
//     rank is given when the bucket first sees the ticket.
//   - A demand fits if what is asked is available.
//   - A demand that does not fit refuses the take, unless it is a shadow.
//   - Refused, nothing is consumed but by demands with CountRefused: they
//     consume their charge whether they fit or not. Every other demand that
//     refused for want of held tokens marks its bucket as recalled.
//   - Allowed, every demand that fits consumes what was asked; a shadow that
//     does not fit consumes nothing.
//   - CountRefused means nothing to concurrency: who is refused is not in
//     flight.
//   - Refused, a ticket is put into every enforcing demand's bucket that did
//     not fit, or renewed there, and taken out of the others. Where the take
//     can never pass, and where it has passed, it is taken out of all.
//
// The results are as of after the take. RetryAfter is 0 where it fits,
// otherwise the wait for what was asked; Held is whether what was asked would
// have fit but for what is held. A peek gets the answer that the take
// would get, with nothing consumed and amounts as they are; it leaves
// no recall mark and remembers no ID.
func (m *Model) Take(_ context.Context, t *sluice.Take, d *sluice.Decision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.begin()
	if err != nil {
		return err
	}
	specs, err := compile(t.Demands)
	if err != nil {
		return err
	}
	if t.ID != "" {
		if r := m.remembered(t.ID, now); r != nil && !r.released() {
			return r.repeat(t, d, now)
		}
	}

	p := m.plan(t, specs, now)
	if !t.Peek {
		m.carryOut(t, &p)
	}
	for i, w := range p.buckets {
		r := &p.results[i]
		w.fill(r)
		if !r.Fits {
			r.RetryAfter = duration(w.spec.RetryIn(&w.state, w.view, p.ask[i]))
		}
	}
	conclude(d, sluice.Decision{
		Allowed: p.allowed,
		ID:      t.ID,
		Time:    time.UnixMicro(p.at),
		Demands: t.Demands,
		Results: p.results,
	})
	if t.ID != "" && !t.Peek {
		m.remember(t, &p)
	}
	return nil
}

// plan is a take that is decided and not yet carried out.
type plan struct {
	buckets []*working
	ask     []int64 // of each bucket
	results []sluice.Result
	allowed bool
	at      int64 // the time of the take
}

func (m *Model) plan(t *sluice.Take, specs []*bucket.Spec, now int64) plan {
	p := plan{
		buckets: make([]*working, len(specs)),
		results: make([]sluice.Result, len(specs)),
		allowed: true,
		at:      now,
	}
	for i, spec := range specs {
		w := m.open(t.Demands[i].Key, spec, now)
		if t.Ticket.ID != (sluice.HoldID{}) {
			w.ticket = spec.Stand(&w.state, &w.view, t.Ticket.ID, t.Ticket.Rank.Microseconds())
		}
		p.buckets[i] = w
		p.at = max(p.at, w.view.Now)
	}
	p.ask = asks(t, p.buckets)
	for i, w := range p.buckets {
		shadow := t.Demands[i].Shadow
		fits := p.ask[i] <= w.view.Available()
		p.results[i].Fits, p.results[i].Held = fits, !fits && w.view.ForHeld(p.ask[i])
		p.allowed = p.allowed && (fits || shadow)
	}
	return p
}

// asks is what t wants of each bucket.
func asks(t *sluice.Take, buckets []*working) []int64 {
	ask := make([]int64, len(buckets))
	for i := range t.Demands {
		ask[i] = t.Demands[i].Charge().Thousandths()
	}
	if !t.UpTo {
		return ask
	}
	const token = sluice.Token
	charge := ask[0] // the same in every demand
	n := charge
	for i, w := range buckets {
		if !t.Demands[i].Shadow {
			n = min(n, w.view.Available())
		}
	}
	if n < charge {
		n = max(n, 0) / token * token
	}
	if n == 0 {
		n = min(charge, token)
	}
	for i := range ask {
		ask[i] = n
	}
	return ask
}

// carryOut consumes what the plan says and writes it.
func (m *Model) carryOut(t *sluice.Take, p *plan) {
	for i, w := range p.buckets {
		demand, r := &t.Demands[i], &p.results[i]
		counted := demand.CountRefused && demand.Limit.Algorithm != sluice.Concurrency
		amount := int64(0)
		switch {
		case p.allowed && r.Fits:
			amount = p.ask[i]
		case !p.allowed && counted:
			amount = demand.Charge().Thousandths()
		case !p.allowed && !r.Fits && !demand.Shadow:
			if w.spec.Recall(&w.state, w.view, p.ask[i]) || w.repaced {
				m.write(w)
			}
		}
		if amount > 0 {
			holder := bucket.Holder{ID: t.ID, Cost: amount, Expires: p.expires(t)}
			r.Consumed = sluice.Thousandths(w.consume(amount, holder))
			m.write(w)
		}
	}
	if t.Ticket.ID != (sluice.HoldID{}) {
		m.line(t, p)
	}
}

// line puts the take's ticket where it has to wait, and out of where it has
// not.
func (m *Model) line(t *sluice.Take, p *plan) {
	waits := !p.allowed
	for i, w := range p.buckets {
		waits = waits && (t.Demands[i].Shadow || p.ask[i] <= w.spec.Capacity)
	}
	for i, w := range p.buckets {
		if !waits || p.results[i].Fits || t.Demands[i].Shadow {
			if w.spec.Leave(&w.state, w.view, t.Ticket.ID) {
				m.write(w)
			}
			continue
		}
		w.ticket.Cost, w.ticket.Expires = p.ask[i], w.view.Now+bucket.TicketLife.Microseconds()
		w.spec.Queue(&w.state, w.view, w.ticket)
		m.write(w)
	}
}

// expires is when the take's lease ends and its id is forgotten.
func (p *plan) expires(t *sluice.Take) int64 { return p.at + t.Keep.Microseconds() }
