package sluice

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Store keeps buckets and decides takes. Each call is atomic: it sees and
// leaves every bucket it names in one state, whoever else is calling.
//
// An error says whether anything can have happened: it wraps [ErrUnknown] if
// that is not known, and otherwise nothing has.
//
// Stores are given takes that [Limiter] has normalized. A store that cannot
// do something returns [errors.ErrUnsupported] and leaves it out of its
// [Capabilities].
type Store interface {
	// Take decides t and fills in d, reusing d.Results.
	Take(ctx context.Context, t *Take, d *Decision) error

	// Adjust consumes (or, with a negative cost, refunds) unconditionally.
	// A refund fills a bucket at most, but all of it counts as refunded;
	// consumption may leave a debt of at most MaxThousandths.
	Adjust(ctx context.Context, changes []Demand, d *Decision) error

	// Settle changes or closes a lease. See [Settlement].
	Settle(ctx context.Context, s *Settlement, d *Decision) error

	// Reset refills buckets: nothing used, no debt, nothing in flight.
	// What other nodes hold stays held.
	Reset(ctx context.Context, keys []Key) error

	// Hold moves tokens out of buckets into the caller's hands, filling in
	// one grant for each request. The requests are independent.
	Hold(ctx context.Context, requests []HoldRequest, grants []Grant) error

	// Return closes holds: what was spent is consumed, the rest goes back.
	// It also removes tickets. Unknown and expired ones are ignored.
	Return(ctx context.Context, returns []HoldReturn) error

	// List finds buckets that are not full, in no particular order.
	List(ctx context.Context, q Query) (Page, error)

	// Forget removes what List does not find: the leases and request ids of
	// takes from an entity's buckets, and buckets that are full. It returns
	// the cursor to go on with, or "" if it is done.
	Forget(ctx context.Context, f Forgetting) (next string, err error)

	Capabilities() Capabilities
	Close() error
}

// Watcher is a store shared by several processes that can tell when room was
// made other than by time: by a refund, a release, a commit that freed
// concurrency, a reset, a returned hold or a ticket that was removed.
type Watcher interface {
	// Watch calls wake, soon but not reliably, with the keys of such buckets
	// until the store is closed. wake must not block. Whenever it may have
	// missed something, and when it begins to listen, it calls wake with
	// [AnyKey].
	Watch(wake func(Key))
}

// AnyKey is what a [Watcher] wakes when any bucket may have room: its parts
// are longer than those of any key.
var AnyKey = Key{Limit: strings.Repeat("*", MaxKeyPart+1)}

// Capabilities is the set of what a store supports beyond taking tokens.
type Capabilities uint8

const (
	// CanHold stores grant tokens in advance.
	CanHold Capabilities = 1 << iota
	// CanList stores find buckets by entity and by resource.
	CanList
	// CanLease stores keep leases and request ids.
	CanLease
	// CanWindow stores have sliding windows.
	CanWindow
)

// Has reports whether c includes all of want.
func (c Capabilities) Has(want Capabilities) bool { return c&want == want }

// Settlement changes a lease: its costs, its lifetime, or its end.
type Settlement struct {
	ID string

	// Costs sets what the lease costs, in every bucket of that limit. The
	// excess is refunded; what is missing is consumed, even if that leaves a
	// debt. Limits not named keep their cost.
	Costs []LimitCost

	// Action is what to do with the lease.
	Action Action

	// Keep is the new lifetime, from now; only for Renew.
	Keep time.Duration
}

// LimitCost is a cost in the limit of that name.
type LimitCost struct {
	Limit string `json:"limit"`
	Cost  Amount `json:"cost"`
}

// Action is what a settlement does with the lease.
type Action uint8

const (
	// Adjust keeps the lease open.
	Adjust Action = iota
	// Renew keeps it open for longer.
	Renew
	// Commit ends it: tokens stay spent, concurrency is freed. Committing a
	// committed lease again changes nothing and is no error.
	Commit
	// Release ends it as if it had never been: everything is refunded.
	// Releasing a released lease again changes nothing and is no error.
	Release
)

func (a Action) String() string { return name(a, "adjust", "renew", "commit", "release") }

func (s *Settlement) validate() error {
	if s.ID == "" || len(s.ID) > MaxID {
		return badField("lease.id", s.ID[:min(len(s.ID), 32)], "must be the id of a lease")
	}
	if s.Keep < 0 || s.Keep > MaxLease || (s.Action == Renew) != (s.Keep != 0) {
		return badField("lease.keep", s.Keep, "must be above 0 and at most a week to renew, and 0 otherwise")
	}
	for i, c := range s.Costs {
		if slices.ContainsFunc(s.Costs[:i], func(o LimitCost) bool { return o.Limit == c.Limit }) {
			return badField("lease.costs["+c.Limit+"]", c.Cost, "is given twice")
		}
		if c.Cost.Thousandths() < 0 || c.Cost.Thousandths() > MaxThousandths {
			return badField("lease.costs["+c.Limit+"]", c.Cost, "must be between 0 and "+maxAmount.String())
		}
	}
	return nil
}

// HoldID names a hold or a ticket: a number that is unique in the node that
// took it. A node draws its own number at random each time it starts.
type HoldID struct{ Node, Seq uint64 }

// Ticket is the place in line of a caller that waits; see [Limiter.Wait]. A
// take with a ticket that is refused leaves the ticket in every bucket that had
// no room for it, for five seconds, or renews the one that is there; it takes
// its ticket out of the buckets that had room, and out of all of them once it
// passes or can never pass. [Store.Return] removes a ticket, too.
//
// What a ticket wants counts as used for all who come after it: for takes
// without a ticket and for other nodes' tickets of a higher rank. So the lowest
// rank is served first, and nothing is consumed before its caller acts. A node
// has one ticket in a bucket, the last it has put there: who of its own callers
// is first it decides itself. While a bucket has tickets, no tokens of it are
// held ahead.
type Ticket struct {
	ID HoldID // the zero HoldID is no ticket

	// Rank places the ticket: it ranks by the store's time plus Rank, as of
	// when the store first sees it. The lower rank is served first, and of
	// equal ones the lower ID.
	Rank time.Duration
}

// HoldRequest asks for tokens in advance. If Previous is set, that hold is
// first closed as by [Store.Return], in the same step.
type HoldRequest struct {
	Key   Key
	Limit Limit
	ID    HoldID

	// Min and Max bound the grant; less than Min is granted as nothing. A Min
	// above the limit's capacity only gives Previous back and asks what is
	// left.
	Min, Max Amount

	// TTL is how long the store keeps the hold. What is not returned by then
	// counts as spent.
	TTL time.Duration

	Previous HoldID
	Spent    Amount // of Previous
}

// Grant is what a [HoldRequest] got.
type Grant struct {
	Amount    Amount        // 0: nothing was granted
	Remaining Amount        // what is not used, held by nodes or not
	Free      Amount        // what can still be granted or taken: Remaining less what nodes hold
	Expires   time.Time     // in the store's time; never past the end of a fixed window
	Now       time.Time     // the store's time
	RetryIn   time.Duration // when Min could be granted, or Never
	Recalled  bool          // nothing is granted now because somebody waits for tokens
	Held      bool          // Min would be granted except for what other nodes hold
}

// HoldReturn closes a hold of which Spent was used.
type HoldReturn struct {
	Key   Key
	Limit Limit
	ID    HoldID
	Spent Amount
}

// Query finds buckets. Empty fields match everything in the namespace.
type Query struct {
	Namespace string
	Entity    string
	Resource  string

	Cursor string // "" starts; then Page.Next
	Max    int    // buckets a page: 1 to 1000; 0 means 100
}

// Forgetting is what [Store.Forget] removes. A lease that is forgotten cannot be
// settled: what it took stays taken until it expires, as if its caller had died.
type Forgetting struct {
	Namespace string
	Entities  []string // none means all of the namespace
	Cursor    string   // "" starts; then what the call before returned
}

// Names reports whether f is about the entity of a key.
func (f *Forgetting) Names(k *Key) bool {
	return k.Namespace == f.Namespace && (len(f.Entities) == 0 || slices.Contains(f.Entities, k.Entity))
}

// Page is one page of buckets.
type Page struct {
	Buckets []Bucket
	Next    string // "" after the last page
	Time    time.Time
}

// Bucket is the state of one bucket, for display.
type Bucket struct {
	Key       Key
	Limit     Limit
	Remaining Amount        // what is not used; below 0 it is a debt
	Held      Amount        // the part of Remaining that is in the hands of nodes
	Consumed  Amount        // net consumption since the bucket was last full, independent of refill
	Reset     time.Duration // when nothing is used any more; what is held does not count
	LastTaken time.Time     // zero for windows, which do not keep it
	Tickets   int           // nodes with callers that wait for it
}

// Utilization returns the used share of the capacity in percent; above 100 it is
// a debt.
func (b *Bucket) Utilization() float64 {
	c := b.Limit.Capacity().Thousandths()
	if c == 0 {
		return 0
	}
	return 100 * float64(c-b.Remaining.Thousandths()) / float64(c)
}

var errQueryMax = errors.New("query.max: must be 1 to 1000, or 0 for 100")

// Normalize fills in the default page size and returns an error if q is not valid.
func (q *Query) Normalize() error {
	if q.Max == 0 {
		q.Max = 100
	}
	if q.Max < 1 || q.Max > 1000 {
		return errQueryMax
	}
	return nil
}
