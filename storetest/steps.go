package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// A scenario is a table of steps on one store. Each moves the clock, does one
// thing, and wants an answer, which is written as a line of text: see tell.
type scenario struct {
	name  string
	needs sluice.Capabilities
	start time.Time // zero means epoch
	steps []step
}

type step struct {
	after time.Duration // what the clock moves by first; negative puts it back
	do    op
	want  string
}

// op is what a step does; it answers what came of it.
type op func(*stage) string

func checks(scenarios []scenario) []Check {
	all := make([]Check, len(scenarios))
	for i, sc := range scenarios {
		all[i] = Check{Name: sc.name, Needs: sc.needs, Run: sc.run}
	}
	return all
}

func (sc *scenario) run(tb testing.TB, open Open) error {
	start := sc.start
	if start.IsZero() {
		start = epoch
	}
	s := newStage(tb, open, start)
	for i, st := range sc.steps {
		s.clock.advance(st.after)
		if got := st.do(s); got != st.want {
			return fmt.Errorf("step %d, at %s after the start:\n got %s\nwant %s",
				i+1, s.clock.now().Sub(start), got, st.want)
		}
	}
	return nil
}

// need is a demand that is not yet bound to a store.
type need struct {
	name   string // of the limit, and so of the bucket
	limit  string
	tokens float64

	shadow, counted bool
}

// on is a need of one bucket.
func on(name, limit string, tokens float64) need {
	return need{name: name, limit: limit, tokens: tokens}
}

func (n need) shadowed() need { n.shadow = true; return n }

func (n need) counting() need { n.counted = true; return n }

func (s *stage) demands(needs []need) []sluice.Demand {
	demands := make([]sluice.Demand, len(needs))
	for i, n := range needs {
		demands[i] = s.demand(n.name, n.limit, n.tokens)
		demands[i].Shadow, demands[i].CountRefused = n.shadow, n.counted
	}
	return demands
}

// decide does t with needs as its demands.
func decide(t sluice.Take, needs []need) op {
	return func(s *stage) string {
		t := t
		t.Demands = s.demands(needs)
		if t.ID != "" {
			t.ID = s.id(t.ID)
		}
		var d sluice.Decision
		err := s.limiter.Decide(s.tb.Context(), &t, &d)
		return tell(&d, err)
	}
}

func take(needs ...need) op { return decide(sluice.Take{}, needs) }

func peek(needs ...need) op { return decide(sluice.Take{Peek: true}, needs) }

func upTo(needs ...need) op { return decide(sluice.Take{UpTo: true}, needs) }

// wait takes with the ticket of a node, which ranks so long after now.
func wait(node uint64, rank time.Duration, needs ...need) op {
	return decide(sluice.Take{Ticket: sluice.Ticket{ID: ticketID(node), Rank: rank}}, needs)
}

func ticketID(node uint64) sluice.HoldID { return sluice.HoldID{Node: node, Seq: 1} }

// leave gives up waiting.
func leave(id sluice.HoldID, n need) op {
	return func(s *stage) string {
		err := s.store.Return(s.tb.Context(), []sluice.HoldReturn{{Key: s.key(n.name), Limit: sluice.MustParse(n.limit), ID: id}})
		if err != nil {
			return tellError(err)
		}
		return "done"
	}
}

// once takes with a request id.
func once(id string, keep time.Duration, needs ...need) op {
	return decide(sluice.Take{ID: id, Keep: keep}, needs)
}

// lease takes and leaves a lease.
func lease(id string, keep time.Duration, needs ...need) op {
	return decide(sluice.Take{ID: id, Keep: keep, Lease: true}, needs)
}

func adjust(needs ...need) op {
	return func(s *stage) string {
		d, err := s.limiter.Adjust(s.tb.Context(), s.demands(needs)...)
		return tell(&d, err)
	}
}

type costs map[string]float64

func settle(id string, action sluice.Action, c costs) op {
	return func(s *stage) string {
		st := sluice.Settlement{ID: s.id(id), Action: action}
		for name, tokens := range c {
			st.Costs = append(st.Costs, sluice.LimitCost{Limit: name, Cost: sluice.Thousandths(amount(tokens))})
		}
		d, err := s.limiter.Settle(s.tb.Context(), st)
		return tell(&d, err)
	}
}

func setCost(id string, c costs) op { return settle(id, sluice.Adjust, c) }

func commit(id string) op { return settle(id, sluice.Commit, nil) }

func release(id string) op { return settle(id, sluice.Release, nil) }

func renew(id string, keep time.Duration) op {
	return func(s *stage) string {
		d, err := s.limiter.Settle(s.tb.Context(), sluice.Settlement{ID: s.id(id), Action: sluice.Renew, Keep: keep})
		return tell(&d, err)
	}
}

func reset(names ...string) op {
	return func(s *stage) string {
		keys := make([]sluice.Key, len(names))
		for i, name := range names {
			keys[i] = s.key(name)
		}
		if err := s.limiter.Reset(s.tb.Context(), keys...); err != nil {
			return tellError(err)
		}
		return "done"
	}
}

// hold asks for least to most tokens; seq is the hold's number.
func hold(seq uint64, ttl time.Duration, n need, least float64) op {
	return rehold(seq, ttl, n, least, 0, 0)
}

// holdTwice asks for two holds in one call.
func holdTwice(n need, least float64) op {
	return func(s *stage) string {
		q := sluice.HoldRequest{
			Key: s.key(n.name), Limit: sluice.MustParse(n.limit), ID: holdID(1),
			Min: sluice.Thousandths(amount(least)), Max: sluice.Thousandths(amount(n.tokens)), TTL: time.Second,
		}
		other := q
		other.ID = holdID(2)
		grants := make([]sluice.Grant, 2)
		if err := s.store.Hold(s.tb.Context(), []sluice.HoldRequest{q, other}, grants); err != nil {
			return tellError(err)
		}
		return tellGrant(&grants[0]) + " | " + tellGrant(&grants[1])
	}
}

// rehold first closes the hold numbered previous, of which spent was used.
func rehold(seq uint64, ttl time.Duration, n need, least float64, previous uint64, spent float64) op {
	return func(s *stage) string {
		q := sluice.HoldRequest{
			Key: s.key(n.name), Limit: sluice.MustParse(n.limit), ID: holdID(seq),
			Min: sluice.Thousandths(amount(least)), Max: sluice.Thousandths(amount(n.tokens)), TTL: ttl, Spent: sluice.Thousandths(amount(spent)),
		}
		if previous != 0 {
			q.Previous = holdID(previous)
		}
		grants := make([]sluice.Grant, 1)
		if err := s.store.Hold(s.tb.Context(), []sluice.HoldRequest{q}, grants); err != nil {
			return tellError(err)
		}
		return tellGrant(&grants[0])
	}
}

func giveBack(seq uint64, n need) op {
	return func(s *stage) string {
		err := s.store.Return(s.tb.Context(), []sluice.HoldReturn{{
			Key: s.key(n.name), Limit: sluice.MustParse(n.limit), ID: holdID(seq), Spent: sluice.Thousandths(amount(n.tokens)),
		}})
		if err != nil {
			return tellError(err)
		}
		return "done"
	}
}

func holdID(seq uint64) sluice.HoldID { return sluice.HoldID{Node: 7, Seq: seq} }

// list tells what buckets there are.
func list() op {
	return func(s *stage) string {
		page, err := s.limiter.List(s.tb.Context(), sluice.Query{Namespace: s.namespace})
		if err != nil {
			return tellError(err)
		}
		return tellPage(&page)
	}
}
