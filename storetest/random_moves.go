package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
)

// chance is true in n of a hundred cases.
func (p *player) chance(n int) bool { return p.IntN(100) < n }

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (p *player) anyLimit() sluice.Limit { return sluice.MustParse(pick(p.Rand, p.profile.limits)) }

// someKeys are n different ones.
func (p *player) someKeys(n int) []sluice.Key {
	keys := slices.Clone(p.keys)
	p.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys[:n]
}

// limit is the one to ask for a key with: now and then a new one.
func (p *player) limit(k sluice.Key) sluice.Limit {
	if p.chance(p.profile.change) {
		l := p.anyLimit()
		if p.chance(50) {
			p.limits[k] = l
		}
		return l
	}
	return p.limits[k]
}

// cost is an amount that might make a difference.
func (p *player) cost(l sluice.Limit) int64 {
	capacity := l.Capacity().Thousandths()
	if l.Algorithm == sluice.Concurrency {
		return p.Int64N((capacity/sluice.Token)+2) * sluice.Token
	}
	switch p.IntN(10) {
	case 0:
		return 0
	case 1, 2:
		return sluice.Token
	case 3:
		return capacity
	case 4:
		return capacity + int64(p.IntN(2))
	case 5:
		if d := p.last.decision; d != nil && len(d.Results) > 0 {
			return max(d.Results[0].Remaining.Thousandths()+int64(p.IntN(3)-1), 0)
		}
		return sluice.Token
	case 6, 7:
		return (1 + p.Int64N(5)) * sluice.Token
	default:
		return 1 + p.Int64N(capacity)
	}
}

func (p *player) demandsOf(n int) []sluice.Demand {
	demands := make([]sluice.Demand, n)
	for i, k := range p.someKeys(n) {
		l := p.limit(k)
		demands[i] = sluice.Demand{
			Key: k, Limit: l, Cost: sluice.Thousandths(p.cost(l)),
			Shadow: p.chance(10), CountRefused: p.chance(10),
			Critical: p.chance(10), Level: sluice.Level(p.IntN(8)),
		}
	}
	return demands
}

// someTake is any take, but for an id.
func (p *player) someTake(n int) sluice.Take {
	t := sluice.Take{Demands: p.demandsOf(n)}
	switch p.IntN(8) {
	case 0:
		t.UpTo = true
		for i := range t.Demands {
			t.Demands[i].Cost = t.Demands[0].Cost
		}
	case 1, 2:
		if p.profile.waits {
			t.Ticket = sluice.Ticket{ID: p.ticketID(), Rank: p.upTo(30*time.Second) - 10*time.Second}
		}
	}
	return t
}

// deciding is the move of a take. It gives each store its own copy, as stores
// must not rely on the caller leaving it alone.
func (p *player) deciding(t sluice.Take) move {
	if slices.ContainsFunc(t.Demands, func(d sluice.Demand) bool { return d.Limit.Algorithm == sluice.Concurrency }) && !t.Peek {
		if !p.can.Has(sluice.CanLease) {
			t.Peek = true
		} else if t.Lease = true; t.ID == "" {
			t.ID = p.newID()
		}
		for i := range t.Demands {
			if t.UpTo || t.Demands[i].Limit.Algorithm == sluice.Concurrency {
				t.Demands[i].Cost = sluice.Thousandths(t.Demands[i].Cost.Thousandths() - t.Demands[i].Cost.Thousandths()%sluice.Token)
			}
		}
	}
	m := move{text: describe(&t)}
	if t.ID != "" {
		m.ids, m.take = []string{t.ID}, &t
	}
	for i := range t.Demands {
		m.keys = append(m.keys, t.Demands[i].Key)
	}
	m.do = func(l *sluice.Limiter, _ sluice.Store) outcome {
		own := t
		own.Demands = slices.Clone(t.Demands)
		var d sluice.Decision
		err := l.Decide(p.tb.Context(), &own, &d)
		d.Demands = slices.Clone(d.Demands)
		clear(own.Demands)
		return outcome{decision: &d, err: err}
	}
	return m
}

// earlier is a take with an id, most often one of the latest.
func (p *player) earlier() sluice.Take {
	if p.chance(80) {
		return pick(p.Rand, p.takes[max(0, len(p.takes)-4):])
	}
	return pick(p.Rand, p.takes)
}

func (p *player) newID() string {
	p.seq++
	return p.id(fmt.Sprint(p.seq))
}

func take1(p *player) move    { return p.deciding(p.someTake(1)) }
func takeSome(p *player) move { return p.deciding(p.someTake(1 + p.IntN(3))) }

func peekSome(p *player) move {
	t := p.someTake(1 + p.IntN(3))
	t.Peek = true
	return p.deciding(t)
}

// onceSome takes with an id: a new one, or an earlier take again.
func onceSome(p *player) move {
	if len(p.takes) > 0 && p.chance(50) {
		t := p.earlier()
		t.Demands = slices.Clone(t.Demands)
		switch p.IntN(8) {
		case 0:
			t.Demands[0].Cost = sluice.Thousandths(t.Demands[0].Cost.Thousandths() + sluice.Token)
			t.UpTo = false
		case 1:
			t.Demands[0].Limit = p.anyLimit()
		case 2:
			t.Lease = !t.Lease
		}
		return p.deciding(t)
	}
	t := p.someTake(1 + p.IntN(3))
	t.ID = p.newID()
	t.Keep = p.upTo(pick(p.Rand, []time.Duration{10 * time.Millisecond, 10 * time.Second, time.Hour}))
	return p.deciding(t)
}

func leaseSome(p *player) move {
	t := p.someTake(1 + p.IntN(3))
	t.ID, t.Lease = p.newID(), true
	t.Keep = p.upTo(pick(p.Rand, []time.Duration{time.Second, time.Minute, 24 * time.Hour}))
	return p.deciding(t)
}

func settleSome(p *player) move {
	actions := []sluice.Action{sluice.Adjust, sluice.Adjust, sluice.Adjust, sluice.Renew, sluice.Commit, sluice.Release, sluice.Release}
	st := sluice.Settlement{ID: p.id("unknown"), Action: pick(p.Rand, actions)}
	if st.Action == sluice.Renew {
		st.Keep = time.Microsecond + p.upTo(time.Minute)
	}
	if len(p.takes) > 0 && !p.chance(3) {
		t := p.earlier()
		for range 3 {
			if !t.Lease {
				t = p.earlier()
			}
		}
		st.ID = t.ID
		d := pick(p.Rand, t.Demands)
		if st.Action != sluice.Release && p.chance(60) {
			st.Costs = append(st.Costs, sluice.LimitCost{Limit: d.Key.Limit, Cost: sluice.Thousandths(p.cost(d.Limit))})
		}
		if p.chance(3) {
			st.Costs = append(st.Costs, sluice.LimitCost{Limit: "unknown"})
		}
	}
	if p.lastSettled.ID != "" && p.chance(40) {
		st = p.lastSettled // once more
	}
	p.lastSettled = st
	return move{
		text: fmt.Sprintf("settle %s %s %v %s", tail(st.ID), st.Action, st.Costs, st.Keep),
		ids:  []string{st.ID},
		do: func(l *sluice.Limiter, _ sluice.Store) outcome {
			d, err := l.Settle(p.tb.Context(), st)
			return outcome{decision: &d, err: err}
		},
	}
}

func adjustSome(p *player) move {
	changes := p.demandsOf(1 + p.IntN(2))
	for i := range changes {
		c := &changes[i]
		for c.Limit.Algorithm == sluice.Concurrency {
			c.Limit = p.anyLimit()
			c.Cost = sluice.Thousandths(p.cost(c.Limit))
		}
		if p.chance(50) {
			c.Cost = sluice.Thousandths(-c.Cost.Thousandths())
		}
		if p.chance(2) {
			c.Cost = sluice.Thousandths(c.Cost.Thousandths() * 1_000_000)
		}
		c.Cost = sluice.Thousandths(min(max(c.Cost.Thousandths(), -sluice.MaxThousandths), sluice.MaxThousandths))
	}
	m := move{text: "adjust" + describeDemands(changes)}
	for i := range changes {
		m.keys = append(m.keys, changes[i].Key)
	}
	m.do = func(l *sluice.Limiter, _ sluice.Store) outcome {
		d, err := l.Adjust(p.tb.Context(), slices.Clone(changes)...)
		return outcome{decision: &d, err: err}
	}
	return m
}

func resetSome(p *player) move {
	if !p.chance(30) {
		return take1(p)
	}
	keys := p.someKeys(1 + p.IntN(2))
	return move{text: fmt.Sprint("reset ", keyNames(keys)), keys: keys, do: func(l *sluice.Limiter, _ sluice.Store) outcome {
		return outcome{err: l.Reset(p.tb.Context(), keys...)}
	}}
}

func holdSome(p *player) move {
	requests := make([]sluice.HoldRequest, 1+p.IntN(2))
	m := move{text: "hold"}
	for i := range requests {
		k := pick(p.Rand, p.keys)
		l := p.limit(k)
		p.seq++
		q := sluice.HoldRequest{
			Key: k, Limit: l, ID: holdID(p.seq), Max: sluice.Thousandths(max(p.cost(l), 1)),
			TTL: time.Microsecond + p.upTo(pick(p.Rand, []time.Duration{time.Millisecond, 5 * time.Second, 5 * time.Minute})),
		}
		if p.chance(50) {
			q.Min = sluice.Thousandths(p.Int64N(q.Max.Thousandths() + 1))
		}
		if h := p.someHold(); h != nil && p.chance(40) {
			q.Key, q.Limit, q.Previous, q.Spent = h.Key, p.limit(h.Key), h.ID, h.Spent
		}
		requests[i] = q
		p.holds = append(p.holds, sluice.HoldReturn{Key: q.Key, Limit: q.Limit, ID: q.ID, Spent: sluice.Thousandths(p.Int64N(q.Max.Thousandths() + 2))})
		m.keys = append(m.keys, q.Key)
		m.text += fmt.Sprintf(" [%s %s #%d %s..%s for %s, after #%d spent %s]",
			keyName(q.Key), q.Limit, q.ID.Seq, q.Min, q.Max, q.TTL, q.Previous.Seq, q.Spent)
	}
	m.do = func(_ *sluice.Limiter, s sluice.Store) outcome {
		grants := make([]sluice.Grant, len(requests))
		grants[0].Amount = sluice.Thousandths(12345) // stale: all of it must be written over
		err := s.Hold(p.tb.Context(), requests, grants)
		return outcome{grants: grants, err: err}
	}
	return m
}

// ticketID is one of a few tickets of a few nodes.
func (p *player) ticketID() sluice.HoldID {
	return sluice.HoldID{Node: 100 + uint64(p.IntN(4)), Seq: 1 + uint64(p.IntN(2))}
}

// leaveSome gives up waiting.
func leaveSome(p *player) move {
	k := pick(p.Rand, p.keys)
	left := []sluice.HoldReturn{{Key: k, Limit: p.limit(k), ID: p.ticketID()}}
	return move{text: fmt.Sprintf("leave %s ticket %d", keyName(k), left[0].ID), keys: []sluice.Key{k},
		do: func(_ *sluice.Limiter, s sluice.Store) outcome { return outcome{err: s.Return(p.tb.Context(), left)} }}
}

// someHold is one that may be open, closed or expired.
func (p *player) someHold() *sluice.HoldReturn {
	if len(p.holds) == 0 {
		return nil
	}
	recent := p.holds[max(0, len(p.holds)-8):]
	return &recent[p.IntN(len(recent))]
}

func returnSome(p *player) move {
	h := p.someHold()
	if h == nil {
		return take1(p)
	}
	returns := []sluice.HoldReturn{*h}
	if p.chance(30) {
		returns = append(returns, *p.someHold())
	}
	m := move{text: "return"}
	for _, r := range returns {
		m.keys = append(m.keys, r.Key)
		m.text += fmt.Sprintf(" [%s #%d spent %s]", keyName(r.Key), r.ID.Seq, r.Spent)
	}
	m.do = func(_ *sluice.Limiter, s sluice.Store) outcome {
		return outcome{err: s.Return(p.tb.Context(), returns)}
	}
	return m
}

func describe(t *sluice.Take) string {
	var b strings.Builder
	b.WriteString("take")
	for _, flag := range []struct {
		on   bool
		name string
	}{{t.Peek, " peek"}, {t.UpTo, " up to"}, {t.Lease, " lease"}} {
		if flag.on {
			b.WriteString(flag.name)
		}
	}
	if t.ID != "" {
		fmt.Fprintf(&b, " id %s keep %s", tail(t.ID), t.Keep)
	}
	if t.Ticket.ID.Seq != 0 {
		fmt.Fprintf(&b, " ticket %d rank %s", t.Ticket.ID, t.Ticket.Rank)
	}
	return b.String() + describeDemands(t.Demands)
}

func describeDemands(demands []sluice.Demand) string {
	var b strings.Builder
	for i := range demands {
		d := &demands[i]
		fmt.Fprintf(&b, " [%s %s, cost %s", keyName(d.Key), d.Limit, d.Cost)
		if d.Shadow {
			b.WriteString(", shadow")
		}
		if d.CountRefused {
			b.WriteString(", count refused")
		}
		b.WriteByte(']')
	}
	return b.String()
}

func keyName(k sluice.Key) string { return k.Entity + "/" + k.Limit }

func keyNames(keys []sluice.Key) (names []string) {
	for _, k := range keys {
		names = append(names, keyName(k))
	}
	return names
}

// tail is the part of an id that differs.
func tail(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }
