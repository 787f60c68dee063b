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
//   - A demand fits if what is asked is available. A token bucket fits, too,
//     if it will be available within t.Within; the longest of these waits is
//     the decision's Delay. Taking ahead is not for shadow demands, not
//     together with UpTo, and not past the cap on debt.
//   - A demand that does not fit refuses the take, unless it is a shadow.
//   - Refused, nothing is consumed but by demands with CountRefused: they
//     consume their charge whether they fit or not. Every other demand that
//     refused for want of held tokens marks its bucket as recalled.
//   - Allowed, every demand that fits consumes what was asked; a shadow that
//     does not fit consumes nothing.
//   - CountRefused means nothing to concurrency: who is refused is not in
//     flight.
//
// The results are as of after the take. RetryAfter is 0 where it fits,
// otherwise the wait for what was asked; Held is whether what was asked would
// have fit but for what is held. A peek gets the answer that the take
// would get, with nothing consumed and amounts as they are; it neither leaves
// a recall mark nor looks at the ID.
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
	if t.ID != "" && !t.Peek {
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
		Delay:   duration(p.delay),
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
	delay   int64
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
		p.buckets[i] = m.open(t.Demands[i].Key, spec, now)
		p.at = max(p.at, p.buckets[i].view.Now)
	}
	p.ask = asks(t, p.buckets)
	for i, w := range p.buckets {
		shadow := t.Demands[i].Shadow
		fits := p.ask[i] <= w.view.Available()
		if !fits && !shadow && !t.UpTo {
			if wait, ok := w.ahead(p.ask[i], t.Within); ok {
				fits, p.delay = true, max(p.delay, wait)
			}
		}
		p.results[i].Fits, p.results[i].Held = fits, !fits && w.view.ForHeld(p.ask[i])
		p.allowed = p.allowed && (fits || shadow)
	}
	return p
}

// asks is what t wants of each bucket.
func asks(t *sluice.Take, buckets []*working) []int64 {
	ask := make([]int64, len(buckets))
	for i := range t.Demands {
		ask[i] = int64(t.Demands[i].Charge())
	}
	if !t.UpTo {
		return ask
	}
	const token = int64(sluice.Token)
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

// ahead is how long cost has to wait if it is taken before it is there, and
// whether it can be.
func (w *working) ahead(cost int64, within time.Duration) (int64, bool) {
	if within <= 0 || w.spec.Limit.Algorithm != sluice.TokenBucket {
		return 0, false
	}
	wait := w.spec.RetryIn(&w.state, w.view, cost)
	const debt = int64(sluice.MaxTokens)
	return wait, wait <= within.Microseconds() && w.view.Used+cost <= w.spec.Capacity+debt
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
			amount = int64(demand.Charge())
		case !p.allowed && !r.Fits && !demand.Shadow:
			if w.spec.Recall(&w.state, w.view, p.ask[i]) {
				m.write(w)
			}
		}
		if amount > 0 {
			flight := bucket.Flight{ID: t.ID, Cost: amount, Expires: p.expires(t)}
			r.Consumed = sluice.Tokens(w.consume(amount, flight))
			m.write(w)
		}
	}
}

// expires is when the take's lease ends and its id is forgotten. Its life
// starts when the caller may act.
func (p *plan) expires(t *sluice.Take) int64 { return p.at + p.delay + t.Keep.Microseconds() }
