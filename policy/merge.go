package policy

import (
	"slices"
	"sync"

	"github.com/sluice-go/sluice"
)

const (
	// maxReadings is in how many ways a path can be read.
	maxReadings = 32
	// maxMerged is how many merged routes a policy remembers. Whoever makes up
	// paths can have more of them made, but not kept.
	maxMerged = 1024
)

// readAs are the different routes of one path, in the order of the readings
// that lead to them.
type readAs [maxReadings]*Route

// merges remembers merged routes by what they are made of.
type merges struct {
	mu    sync.RWMutex
	known map[readAs]*Route
}

// of is the route for a request that some servers take for one of the first n
// routes and others for another: the limits of all, each at the highest cost
// and the strictest setting.
func (m *merges) of(routes *readAs, n int) *Route {
	m.mu.RLock()
	r := m.known[*routes]
	m.mu.RUnlock()
	if r != nil {
		return r
	}
	r = routes[0]
	for _, o := range routes[1:n] {
		r = mergeRoutes(r, o)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxMerged {
		m.known = map[readAs]*Route{}
	}
	m.known[*routes] = r
	return r
}

func mergeRoutes(a, b *Route) *Route {
	if a.Exempt || !b.Exempt && b.Cost.Thousandths() > a.Cost.Thousandths() {
		a, b = b, a // the name is that of the one that counts for more
	}
	r := &Route{
		Endpoint: a.Endpoint, Pattern: a.Pattern, Exempt: a.Exempt && b.Exempt,
		Write: a.Write || b.Write, Critical: a.Critical || b.Critical, Cost: a.Cost,
		Scopes: slices.Clone(a.Scopes), Settle: slices.Clone(a.Settle), Idempotency: a.Idempotency,
	}
	for _, s := range b.Settle { // whichever of them answers, its cost counts
		if !slices.Contains(r.Settle, s) {
			r.Settle = append(r.Settle, s)
		}
	}
	for _, s := range b.Scopes {
		if !slices.Contains(r.Scopes, s) {
			r.Scopes = append(r.Scopes, s)
		}
	}
	if r.Idempotency == nil {
		r.Idempotency = b.Idempotency
	}
	r.use(mergeSets(a.Sets, b.Sets))
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
		all[at].merge(&b[i])
	}
	group(all)
	return all
}

// merge makes the settings of another endpoint for the same set count, too.
func (s *Set) merge(o *Set) {
	s.costs = mergeCosts(s.costs, o.costs)
	s.shadow = s.shadow && o.shadow
	s.critical = s.critical || o.critical
	s.onUnavailable = stricter(s.onUnavailable, o.onUnavailable)
}

func mergeCosts(a, b *costs) *costs {
	const rate = sluice.TokenBucket // one that has costs
	m := &costs{rule: max(a.of("", rate), b.of("", rate))}
	for _, c := range []*costs{a, b} {
		if c == nil {
			continue
		}
		for _, l := range c.named {
			m.named = append(m.named, limitCost{Limit: l.Limit, Cost: sluice.Thousandths(max(a.of(l.Limit, rate), b.of(l.Limit, rate)))})
		}
	}
	return m
}
