package policy

import (
	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/identity"
)

// Policy is a policy file, checked and compiled. It never changes and is safe
// for concurrent use; a new file makes a new Policy.
type Policy struct {
	// Namespace keeps the buckets of this policy apart from those of others
	// on the same store. It is already part of every demand.
	Namespace string

	// Revision names the content of the file: the same bytes have the same
	// revision on every node.
	Revision string

	// DefaultTier is for callers who are known but have no tier, or one that
	// the policy does not know. AnonymousTier is for those known by their
	// address alone. Neither is ever nil.
	DefaultTier, AnonymousTier *Tier

	Identity identity.Config // how callers are recognized
	Headers  Headers
	Refusal  Refusal
	Audit    *Audit // nil: no refusal is written to the audit log
	Abuse    Abuse

	// Allow lists those who are never limited, Deny those who are always
	// refused. Deny is asked first.
	Allow, Deny List

	tiers    map[string]*Tier
	order    []*Tier
	failover failover.Config
	matcher  matcher
	file     *document
}

// Tier is a named plan.
type Tier struct {
	Name    string
	Upgrade string // link for refusals of this tier: where to get more; may be ""

	index int // in Policy.order and in a route's table
}

// Tier is the tier of that name, or the default tier if there is none.
func (p *Policy) Tier(name string) *Tier {
	if t := p.tiers[name]; t != nil {
		return t
	}
	return p.DefaultTier
}

// Tiers are all tiers, in the order of the file. A policy without any has one
// whose name is empty.
func (p *Policy) Tiers() []*Tier { return p.order }

// Match finds what the policy says about a request. The path is the one that
// was sent, with its escapes: [net/url.URL.EscapedPath]. The answer is never
// nil: requests that no endpoint matches get a route without a name.
//
// Upper and lower case of the method are the same, and HEAD is as GET where
// no pattern names it.
func (p *Policy) Match(method, path string) *Route { return p.match(method, path) }

// Failover is what the policy says about times without the store. It is read
// when a node starts; a reload does not change it.
func (p *Policy) Failover() failover.Config { return p.failover }

// Route is what the policy says about one kind of request. It never changes.
type Route struct {
	Endpoint string // name of the endpoint; "" if none matches
	Pattern  string // the pattern that matched best, as written; "" if none

	// Exempt requests are not limited at all, and [Route.Sets] is empty.
	Exempt bool

	// Write says that the request changes something: by the endpoint's
	// access, or else by its method.
	Write bool

	// Critical requests are always decided by the store itself; it is
	// already part of every demand.
	Critical bool

	// Cost is what the request costs in limits that have no own cost, for
	// response headers. The demands of the sets have theirs.
	Cost sluice.Tokens

	// Settle lists response headers that tell the real cost afterwards.
	Settle []Settle

	// Lease says that a plain take will not do: the cost is settled later, or
	// a limit in one of the sets is of concurrency.
	Lease bool

	// Idempotency applies to the request, or is nil.
	Idempotency *Idempotency

	table *table
}

// Settle names the response header, written by the handler or the upstream,
// that tells what the request really cost in one limit. The header must not
// reach the client unless it did so before.
type Settle struct {
	Limit  string // as in sluice.LimitCost
	Header string // in canonical form
}

// Sets are the sets of limits that apply to the route for callers of a tier.
// The slice is shared: do not change it.
func (r *Route) Sets(t *Tier) []Set { return r.table.sets[t.index] }
