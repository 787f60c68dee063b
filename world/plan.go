package world

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// Plan is a world before it is played: all that follows from its seed. Faults
// can be left out of it; nothing else changes then but what they caused.
type Plan struct {
	Seed    uint64
	Nodes   int
	Length  time.Duration // of the time in which callers come
	Ahead   time.Duration // of the store's clock before the nodes'
	Buckets []Bucket
	Ops     []Op
	Faults  []Fault
}

// Bucket is one limit of one entity.
type Bucket struct {
	Key   sluice.Key
	Limit sluice.Limit

	// Other is the limit that callers ask under from Changed on; the zero
	// Limit if it does not change.
	Other   sluice.Limit
	Changed time.Duration

	OnUnavailable sluice.OnUnavailable
	Critical      bool
}

// at is the limit that callers ask under at a moment.
func (b *Bucket) at(now time.Duration) sluice.Limit {
	if b.Other != (sluice.Limit{}) && now >= b.Changed {
		return b.Other
	}
	return b.Limit
}

// OpKind is what a caller does.
type OpKind uint8

// What callers do.
const (
	OpTake   OpKind = iota // several in a row
	OpUpTo                 // as much as there is
	OpPeek                 // look
	OpWait                 // in line
	OpLease                // take, and settle later
	OpQueue                // wait for a lease, and settle later
	OpRefund               // take, and give some of it back later
	OpDebt                 // consume without asking
	OpRepeat               // the same id again and again, on several nodes, some in line
	OpReset                // make a bucket new
	OpErase                // forget an entity
)

func (k OpKind) String() string {
	return [...]string{"take", "up to", "peek", "wait", "lease", "queue", "refund", "debt", "repeat", "reset", "erase"}[k]
}

// Op is one caller.
type Op struct {
	N        int // its number
	At       time.Duration
	Node     int
	Kind     OpKind
	Wants    []Want
	ID       string
	Keep     time.Duration
	Times    int           // it asks in a row
	Gap      time.Duration // between them
	Patience time.Duration // until its deadline; 0 for none
	GiveUp   time.Duration // until it is cancelled; 0 for never
	Priority sluice.Priority
	Steps    []Step
}

// Want is a cost in a bucket.
type Want struct {
	Bucket int
	Cost   int64
	Shadow bool
}

// Step is what becomes of a lease, or of what was taken, after a while.
type Step struct {
	After  time.Duration
	Node   int
	Action sluice.Action
	Cost   int64 // of the first want; below 0: unchanged
	Keep   time.Duration
}

// NewPlan makes the world of a seed.
func NewPlan(seed uint64) Plan {
	r := dice(seed, 1)
	p := Plan{
		Seed: seed, Nodes: pick(r, 2, 2, 2, 3, 3, 4),
		Length: pick(r, 3*time.Second, 4*time.Second, 6*time.Second, 12*time.Second),
		Ahead:  between(r, 0, 400*24*time.Hour).Truncate(time.Microsecond),
	}
	if oneIn(r, 3) { // an hour begins while it is played
		p.Ahead = p.Ahead.Truncate(time.Hour) + time.Hour - between(r, 0, p.Length).Truncate(time.Microsecond)
	}
	for i := range 2 + r.IntN(4) {
		p.Buckets = append(p.Buckets, newBucket(dice(seed, 2, uint64(i)), i, p.Length))
	}
	for i := range 15 + r.IntN(30) {
		p.Ops = append(p.Ops, newOp(dice(seed, 3, uint64(i)), i, &p))
	}
	slices.SortFunc(p.Ops, func(a, b Op) int { return cmp.Compare(a.At, b.At) })
	for i := range r.IntN(6) {
		p.Faults = append(p.Faults, newFault(dice(seed, 4, uint64(i)), &p))
	}
	slices.SortFunc(p.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return p
}

// limits to choose from. Those with a capacity of 40 or more are held ahead.
var (
	small    = []string{"5/s", "10/s burst 1", "3/minute", "20/minute burst 4", "1/s burst 3", "2/7s"}
	large    = []string{"100/s", "1000/minute", "200/s burst 400", "90/minute burst 60", "5000/h", "40/10s"}
	windows  = []string{"8/10s sliding", "60/minute sliding", "5/10s fixed", "100/minute fixed", "400/10s fixed", "100000/day UTC", "50/minute fixed"}
	parallel = []string{"1 concurrent", "2 concurrent", "6 concurrent"}
	entities = []string{"ann", "bob"}
)

func newBucket(r *rand.Rand, i int, length time.Duration) Bucket {
	var rule string
	switch i {
	case 0:
		rule = pick(r, large...) // every world holds something ahead
	case 1:
		rule = pick(r, pick(r, small, windows, parallel)...)
	default:
		rule = pick(r, pick(r, small, large, windows, parallel)...)
	}
	b := Bucket{
		Key:      sluice.Key{Namespace: "w", Entity: pick(r, entities...), Resource: "api", Limit: fmt.Sprintf("l%d", i)},
		Limit:    sluice.MustParse(rule),
		Critical: oneIn(r, 12),
	}
	if oneIn(r, 6) {
		b.OnUnavailable = pick(r, sluice.Deny, sluice.Allow)
	}
	if oneIn(r, 6) && b.Limit.Algorithm != sluice.Concurrency {
		b.Other, b.Changed = b.Limit, between(r, 0, length)
		b.Other.Amount = sluice.Thousandths(max(b.Limit.Amount.Thousandths()*int64(50+r.IntN(150))/100/sluice.Token, 1) * sluice.Token)
		if b.Limit.Burst.Thousandths() != 0 {
			b.Other.Burst = sluice.Thousandths(max(b.Limit.Burst.Thousandths()*int64(50+r.IntN(150))/100/sluice.Token, 1) * sluice.Token)
		}
	}
	return b
}

func newOp(r *rand.Rand, n int, p *Plan) Op {
	op := Op{
		N: n, At: between(r, 0, p.Length), Node: r.IntN(p.Nodes), Times: 1,
		Kind: pick(r, OpTake, OpTake, OpTake, OpTake, OpTake, OpUpTo, OpPeek, OpWait, OpWait, OpWait, OpWait,
			OpLease, OpLease, OpLease, OpQueue, OpQueue, OpRefund, OpRefund, OpRepeat, OpRepeat),
		Priority: pick(r, sluice.Normal, sluice.Normal, sluice.Interactive, sluice.Batch),
		ID:       fmt.Sprintf("id-%d", n),
		Keep:     pick(r, time.Second, 5*time.Second, 20*time.Second, time.Minute),
	}
	switch {
	case oneIn(r, 40):
		op.Kind = OpDebt
	case oneIn(r, 60):
		op.Kind = OpReset
	case oneIn(r, 120):
		op.Kind = OpErase
	}
	lease := op.Kind == OpLease || op.Kind == OpQueue
	op.Wants = newWants(r, p, lease || op.Kind == OpPeek, op.Kind == OpUpTo)
	switch op.Kind {
	case OpTake:
		op.Times, op.Gap = pick(r, 1, 2, 5, 12, 25), between(r, time.Millisecond, pick(r, 20*time.Millisecond, 400*time.Millisecond))
	case OpWait, OpQueue:
		op.Times, op.Gap = pick(r, 1, 1, 1, 3), between(r, 0, 50*time.Millisecond)
		op.Patience = between(r, 100*time.Millisecond, pick(r, 2*time.Second, 15*time.Second))
		if oneIn(r, 3) {
			op.GiveUp = between(r, time.Millisecond, op.Patience)
		}
	case OpRepeat:
		op.Times, op.Gap = 2+r.IntN(4), between(r, time.Microsecond, 600*time.Millisecond)
		op.Patience = pick(r, 0, 0, between(r, time.Millisecond, 100*time.Millisecond), between(r, time.Second, 3*time.Second))
	}
	if lease || op.Kind == OpRefund {
		op.Steps = newSteps(r, p, &op)
	}
	return op
}

// newWants chooses buckets. One of them at most can be held ahead: requests
// for two of them would be sent together or apart, as it happens.
func newWants(r *rand.Rand, p *Plan, concurrency, same bool) []Want {
	var wants []Want
	holdable := false
	for _, i := range r.Perm(len(p.Buckets))[:1+min(r.IntN(5)/2, len(p.Buckets)-1)] {
		b := &p.Buckets[i]
		if b.Limit.Algorithm == sluice.Concurrency && !concurrency {
			continue
		}
		if can := holdAhead(b.Limit) || holdAhead(b.Other); can && holdable {
			continue
		} else if can {
			holdable = true
		}
		w := Want{Bucket: i, Cost: newCost(r, b.Limit), Shadow: oneIn(r, 15)}
		if same && len(wants) > 0 {
			w.Cost = wants[0].Cost
		}
		wants = append(wants, w)
	}
	if len(wants) == 0 {
		wants = append(wants, Want{Bucket: 0, Cost: newCost(r, p.Buckets[0].Limit)})
	}
	return wants
}

func holdAhead(l sluice.Limit) bool {
	return (l.Algorithm == sluice.TokenBucket || l.Algorithm == sluice.FixedWindow) && l.Capacity().Thousandths() >= 40*sluice.Token
}

func newCost(r *rand.Rand, l sluice.Limit) int64 {
	c := l.Capacity().Thousandths()
	if l.Algorithm == sluice.Concurrency {
		return sluice.Token
	}
	switch r.IntN(12) {
	case 0:
		return c + sluice.Token // never
	case 1:
		return max(c*7/10/sluice.Token, 1) * sluice.Token
	case 2, 3:
		return max(c/3/sluice.Token, 1) * sluice.Token
	case 4:
		return max(c/50, 1) // a part of a token
	case 5, 6:
		return max(c/12/sluice.Token, 1) * sluice.Token
	}
	return sluice.Token
}

func newSteps(r *rand.Rand, p *Plan, op *Op) []Step {
	var steps []Step
	node := func() int {
		if oneIn(r, 3) {
			return r.IntN(p.Nodes)
		}
		return op.Node
	}
	cost := op.Wants[0].Cost
	for range 1 + r.IntN(3) {
		s := Step{After: between(r, time.Millisecond, pick(r, 300*time.Millisecond, 3*time.Second)), Node: node(), Cost: -1}
		switch r.IntN(5) {
		case 0:
			s.Action, s.Keep = sluice.Renew, op.Keep
		case 1, 2:
			s.Action, s.Cost = sluice.Adjust, cost*int64(r.IntN(12))/10
		case 3:
			s.Action, s.Cost = sluice.Commit, pick(r, -1, cost*int64(r.IntN(11))/10)
		case 4:
			s.Action = sluice.Release
		}
		steps = append(steps, s)
	}
	return steps
}
