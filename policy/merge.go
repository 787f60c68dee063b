package policy

import (
	"slices"
	"sync/atomic"

	"github.com/sluice-go/sluice"
)

// maxMerged is how many merged routes a route remembers.
const maxMerged = 64

// merged is a list of what a route and others are together.
type merged struct {
	with, is *Route
	next     *merged
	length   int
}

// merges is where a route keeps them. It only grows, so that it can be read
// without a lock.
type merges struct{ atomic.Pointer[merged] }

// merge is the route for a request that some servers take for r and others
// for o: the limits of both, each at the higher cost and the stricter
// setting. It is made once for each pair.
func (r *Route) merge(o *Route) *Route {
	head := r.merges.Load()
	for m := head; m != nil; m = m.next {
		if m.with == o {
			return m.is
		}
	}
	m := &merged{with: o, is: mergeRoutes(r, o), next: head, length: 1}
	if head != nil {
		m.length += head.length
	}
	if m.length <= maxMerged && !r.merges.CompareAndSwap(head, m) {
		return r.merge(o) // somebody else was first
	}
	return m.is
}

func mergeRoutes(a, b *Route) *Route {
	if a.Exempt || !b.Exempt && b.Cost > a.Cost {
		a, b = b, a // the name is that of the one that counts for more
	}
	r := &Route{
		Endpoint: a.Endpoint, Pattern: a.Pattern, Exempt: a.Exempt && b.Exempt,
		Write: a.Write || b.Write, Critical: a.Critical || b.Critical, Cost: a.Cost,
		Settle: a.Settle, Lease: a.Lease || b.Lease, Idempotency: a.Idempotency,
		table: &table{sets: make([][]Set, len(a.table.sets))},
	}
	if r.Idempotency == nil {
		r.Idempotency = b.Idempotency
	}
	for i := range r.table.sets {
		r.table.sets[i] = mergeSets(a.table.sets[i], b.table.sets[i])
	}
	return r
}

func mergeSets(a, b []Set) []Set {
	all := slices.Clone(a)
	for i := range b {
		at := slices.IndexFunc(all, func(s Set) bool { return s.Name == b[i].Name })
		if at < 0 {
			all = append(all, b[i])
			continue
		}
		all[at] = mergeSet(&all[at], &b[i])
	}
	return all
}

// mergeSet is one set with the settings of two endpoints. The numbers are the
// same, for they depend on the set and the tier alone.
func mergeSet(a, b *Set) Set {
	s := *a
	s.costs = mergeCosts(a.costs, b.costs)
	s.base.Shadow = a.base.Shadow && b.base.Shadow
	s.base.Critical = a.base.Critical || b.base.Critical
	s.base.OnUnavailable = stricter(a.base.OnUnavailable, b.base.OnUnavailable)
	s.Demands = make([]sluice.Demand, len(a.Demands))
	for i, d := range a.Demands {
		s.Demands[i] = s.demand(d.Key.Limit, d.Limit, d.Level)
	}
	return s
}

func mergeCosts(a, b *costs) *costs {
	none := sluice.Limit{}
	m := &costs{rule: max(a.of("", none), b.of("", none))}
	for _, c := range []*costs{a, b} {
		if c == nil {
			continue
		}
		for _, l := range c.named {
			m.named = append(m.named, limitCost{Limit: l.Limit, Cost: max(a.of(l.Limit, none), b.of(l.Limit, none))})
		}
	}
	return m
}
