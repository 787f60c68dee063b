package policy

import (
	"cmp"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
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

	// Declared is what the file declares about limits: the numbers of its sets
	// and tiers, and its sections system, resources and entities. It is for a
	// [catalog.Resolver], and must not be changed.
	Declared *catalog.Declaration

	Degraded Degraded        // what to do without the store
	Identity identity.Config // how callers are recognized
	Headers  Headers
	Upstream Upstream
	Refusal  Refusal
	Audit    *Audit // nil: no refusal is written to the audit log
	Abuse    Abuse

	// Allow lists those who are never limited, Deny those who are always
	// refused. Deny is asked first.
	Allow, Deny List

	// Warnings are what the file may say and hardly means.
	Warnings Mistakes

	upgrades map[string]string
	matcher  matcher
}

// Upgrade returns the link for refusals of a tier: where to get more.
func (p *Policy) Upgrade(tier string) string { return cmp.Or(p.upgrades[tier], p.Refusal.Upgrade) }

// Match finds what the policy says about a request. The path is the one that
// was sent, with its escapes: [net/url.URL.EscapedPath]. The answer is never
// nil: requests that no endpoint matches get a route without a name.
//
// Upper and lower case of the method are the same, and HEAD is as GET where
// no pattern names it.
func (p *Policy) Match(method, path string) *Route { return p.match(method, path) }

// Route is what the policy says about one kind of request. It never changes.
type Route struct {
	Endpoint string // name of the endpoint; "" if none matches
	Pattern  string // the pattern that matched best, as written; "" if none

	// Exempt requests are not limited at all, and there are no sets.
	Exempt bool

	// Write reports whether the request changes something: by the endpoint's
	// access, or else by its method.
	Write bool

	// Critical requests are always decided by the store itself; it is
	// already part of every demand.
	Critical bool

	// Cost is what the request costs in limits that have no own cost, for
	// response headers. The demands of the sets have theirs.
	Cost sluice.Amount

	// Scopes are what the caller's key or token must have, all of them.
	Scopes []string

	// Settle lists the response headers that have the actual cost.
	Settle []Settle

	// Idempotency applies to the request, or is nil.
	Idempotency *Idempotency

	// Sets are the sets of limits that apply. The slice is shared: do not
	// change it. Callers are the names of those that count the caller, as
	// [catalog.JoinResources] writes them.
	Sets    []Set
	Callers string
}

// Settle names the response header, written by the handler or the upstream,
// that tells what the request really cost in one limit. The header must not
// reach the client unless it did so before.
type Settle struct {
	Limit  string // as in sluice.LimitCost
	Header string // in canonical form
}
