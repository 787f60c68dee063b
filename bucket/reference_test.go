package bucket_test

import (
	"cmp"
	"math/big"
	"slices"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// The references below are written for obviousness: whole histories, and
// rational numbers without bounds. They share no code with the package.

func rat(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// floorDiv is a×b/c rounded down, whatever the size of a×b.
func floorDiv(a, b, c int64) int64 {
	n := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	return new(big.Int).Div(n, big.NewInt(c)).Int64() // Euclidean, which is the floor for c > 0
}

type refHold struct{ id, amount, expires int64 }

// refTokens is a token bucket as a textbook has it: a level that leaks
// evenly, and never below zero.
type refTokens struct {
	capacity int64
	rate     *big.Rat // millitokens per microsecond
	used     *big.Rat
	time     int64
	holds    []refHold
}

func newRefTokens(l sluice.Limit) *refTokens {
	return &refTokens{
		capacity: l.Capacity().Thousandths(),
		rate:     big.NewRat(l.Amount.Thousandths(), l.Period.Microseconds()),
		used:     rat(0),
	}
}

func (r *refTokens) leak(t int64) {
	r.used.Sub(r.used, new(big.Rat).Mul(r.rate, rat(t-r.time)))
	if r.used.Sign() < 0 {
		r.used.SetInt64(0)
	}
	r.time = t
}

// at is r at now; holds that end on the way are used from then on.
func (r *refTokens) at(now int64) *refTokens {
	c := *r
	c.used = new(big.Rat).Set(r.used)
	c.holds = slices.Clone(r.holds)
	c.advance(now)
	return &c
}

func (r *refTokens) advance(now int64) {
	now = max(now, r.time)
	slices.SortStableFunc(r.holds, func(a, b refHold) int { return cmp.Compare(a.expires, b.expires) })
	for len(r.holds) > 0 && r.holds[0].expires <= now {
		r.leak(r.holds[0].expires)
		r.used.Add(r.used, rat(r.holds[0].amount))
		r.holds = r.holds[1:]
	}
	r.leak(now)
}

func (r *refTokens) held() (sum int64) {
	for _, h := range r.holds {
		sum += h.amount
	}
	return sum
}

// available is what is left, in whole millitokens.
func (r *refTokens) available() int64 {
	left := new(big.Rat).Sub(rat(r.capacity-r.held()), r.used)
	return new(big.Int).Div(left.Num(), left.Denom()).Int64()
}

// refWindows is a fixed or a sliding window as a list of all that ever
// happened.
type refWindows struct {
	capacity int64
	period   int64
	parts    int64 // into which a window is divided; 1 for fixed windows
	newest   int64 // part
	log      []refEvent
}

type refEvent struct{ part, amount int64 }

func newRefWindows(l sluice.Limit) *refWindows {
	r := &refWindows{capacity: l.Amount.Thousandths(), period: l.Period.Microseconds(), parts: 1}
	if l.Algorithm == sluice.SlidingWindow {
		r.parts = bucket.SubWindows
	}
	return r
}

// at is the part that now is in, never an earlier one than before.
func (r *refWindows) at(now int64) int64 {
	return max(floorDiv(now, r.parts, r.period), r.newest)
}

// used is what counts at a part: for a sliding window the part and as many
// before it as make up a window.
func (r *refWindows) used(part int64) (sum int64) {
	oldest := part
	if r.parts > 1 {
		oldest = part - r.parts
	}
	for _, e := range r.log {
		if e.part >= oldest {
			sum += e.amount
		}
	}
	return sum
}

func (r *refWindows) take(part, amount int64) {
	r.newest = part
	r.log = append(r.log, refEvent{part, amount})
}

// refund takes amount out of the log, the newest first.
func (r *refWindows) refund(part, amount int64) {
	r.newest = part
	for i := len(r.log) - 1; i >= 0 && amount > 0; i-- {
		n := min(amount, r.log[i].amount)
		r.log[i].amount -= n
		amount -= n
	}
}
