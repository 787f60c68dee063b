package bucket_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// someLimit is a limit of the algorithm with numbers that meet each other
// often.
func someLimit(r *rand.Rand, a sluice.Algorithm) sluice.Limit {
	l := sluice.Limit{Algorithm: a, Amount: sluice.Thousandths(1 + r.Int64N(50))}
	switch a {
	case sluice.Concurrency:
		l.Amount = sluice.Thousandths(l.Amount.Thousandths() * sluice.Token)
		return l
	case sluice.TokenBucket:
		l.Burst = sluice.Thousandths(r.Int64N(100))
	}
	l.Period = time.Duration(16+r.Int64N(200)) * time.Microsecond
	return l
}

// someState is a bucket that has seen takes, debts, refunds and holds, and the
// time it has come to.
func someState(r *rand.Rand, p *bucket.Spec) (s bucket.State, now int64) {
	now = 1_000_000 + r.Int64N(1000)
	for range 1 + r.IntN(12) {
		now += r.Int64N(60)
		v := p.View(&s, now)
		amount := 1 + r.Int64N(p.Capacity)
		id := sluice.HoldID{Seq: r.Uint64()}
		switch {
		case p.Limit.Algorithm == sluice.Concurrency:
			if amount <= v.Available() {
				p.Board(&s, v, bucket.Holder{ID: fmt.Sprint(id), Cost: amount, Expires: now + r.Int64N(100)})
			}
		case r.IntN(3) == 0 && p.Holdable():
			if n := p.Grantable(&s, v, 1, amount); n > 0 {
				p.Hold(&s, v, bucket.Hold{ID: id, Amount: n, Expires: now + 1 + r.Int64N(200)})
			}
		case r.IntN(8) == 0:
			p.Refund(&s, v, amount, now)
		case amount <= v.Available() || r.IntN(8) == 0:
			p.Take(&s, v, amount)
		default:
			p.Recall(&s, v, amount)
		}
	}
	return s, now
}

func algorithms(t *testing.T, f func(t *testing.T, r *rand.Rand, a sluice.Algorithm)) {
	for _, a := range []sluice.Algorithm{sluice.TokenBucket, sluice.SlidingWindow, sluice.FixedWindow, sluice.Concurrency} {
		t.Run(a.String(), func(t *testing.T) { f(t, seeded(t), a) })
	}
}

// TestWaitsAreExact: a microsecond before RetryIn is over the cost does not
// fit, and then it does; and the same for ResetIn and a bucket of which nothing
// is used, once all that is held has come back.
func TestWaitsAreExact(t *testing.T) {
	algorithms(t, func(t *testing.T, r *rand.Rand, a sluice.Algorithm) {
		for range 8_000 {
			p := compile(t, someLimit(r, a))
			s, now := someState(r, p)
			v := p.View(&s, now)
			cost := 1 + r.Int64N(p.Capacity+2)
			fits := func(t int64) bool { w := p.View(&s, t); return cost <= w.Available() }
			switch in := p.RetryIn(&s, v, cost); {
			case in == bucket.Never:
				if cost <= p.Capacity {
					t.Fatalf("%s: a cost of %d can never pass (%+v)", p.Limit, cost, s)
				}
			case in == 0:
				if !fits(v.Now) {
					t.Fatalf("%s: a cost of %d should fit (%+v, %+v)", p.Limit, cost, v, s)
				}
			case in < 0 || fits(v.Now+in-1) || !fits(v.Now+in):
				t.Fatalf("%s: a cost of %d should fit first after %d µs (%+v, %+v)", p.Limit, cost, in, v, s)
			}
			in := p.ResetIn(&s, v)
			if s.Ext != nil && p.Holdable() {
				p.Take(&s, v, 0) // what has expired is used
				if s.Ext != nil {
					s.Ext.Holds = nil
				}
			}
			idle := func(t int64) bool { w := p.View(&s, t); return w.Idle() }
			if in < 0 || !idle(v.Now+in) || in > 0 && idle(v.Now+in-1) {
				t.Fatalf("%s: should be idle first after %d µs (%+v, %+v)", p.Limit, in, v, s)
			}
		}
	})
}

// TestGrantsAreExact: the same for what can be held.
func TestGrantsAreExact(t *testing.T) {
	algorithms(t, func(t *testing.T, r *rand.Rand, a sluice.Algorithm) {
		for range 8_000 {
			p := compile(t, someLimit(r, a))
			s, now := someState(r, p)
			v := p.View(&s, now)
			least := 1 + r.Int64N(p.Capacity+2)
			granted := func(t int64) bool { return p.Grantable(&s, p.View(&s, t), least, p.Capacity+5) > 0 }
			switch in := p.HoldableIn(&s, v, least); {
			case in == bucket.Never:
				if p.Holdable() && least <= p.Capacity {
					t.Fatalf("%s: %d can never be held (%+v)", p.Limit, least, s)
				}
			case in < 0 || !granted(v.Now+in) || in > 0 && granted(v.Now+in-1):
				t.Fatalf("%s: %d should be granted first after %d µs (%+v, %+v)", p.Limit, least, in, v, s)
			}
		}
	})
}

// TestLapsedHoldsAreConsumed: what a look counts of expired holds is what the
// next write adds to net consumption.
func TestLapsedHoldsAreConsumed(t *testing.T) {
	algorithms(t, func(t *testing.T, r *rand.Rand, a sluice.Algorithm) {
		for range 5_000 {
			p := compile(t, someLimit(r, a))
			s, now := someState(r, p)
			now += r.Int64N(300)
			v := p.View(&s, now)
			want := p.ConsumedBy(&s, v)
			if p.Holdable() {
				p.Take(&s, v, 0)
			}
			if s.Consumed != want || p.ConsumedBy(&s, p.View(&s, now)) != want {
				t.Fatalf("%s: consumed %d, want %d (%+v)", p.Limit, s.Consumed, want, s)
			}
		}
	})
}

// TestIdleMeansAbsent: an idle state and no state answer alike, now and later.
func TestIdleMeansAbsent(t *testing.T) {
	algorithms(t, func(t *testing.T, r *rand.Rand, a sluice.Algorithm) {
		for range 8_000 {
			p := compile(t, someLimit(r, a))
			old, now := someState(r, p)
			if x := old.Ext; x != nil && len(x.Holds) > 0 {
				now = max(now, x.Holds[len(x.Holds)-1].Expires)
			}
			v := p.View(&old, now)
			now = v.Now + p.ResetIn(&old, v)
			var absent bucket.State
			for range 5 {
				cost := 1 + r.Int64N(p.Capacity)
				v, w := p.View(&old, now), p.View(&absent, now)
				if v.Available() != w.Available() || p.RetryIn(&old, v, cost) != p.RetryIn(&absent, w, cost) ||
					p.ResetIn(&old, v) != p.ResetIn(&absent, w) {
					t.Fatalf("%s at %d: %+v is not like an absent one: %+v, %+v", p.Limit, now, old, v, w)
				}
				if cost <= v.Available() && a == sluice.Concurrency {
					f := bucket.Holder{ID: fmt.Sprint(r.Uint64()), Cost: cost, Expires: now + r.Int64N(100)}
					p.Board(&old, v, f)
					p.Board(&absent, w, f)
				} else if cost <= v.Available() {
					p.Take(&old, v, cost)
					p.Take(&absent, w, cost)
				}
				now += r.Int64N(100)
			}
		}
	})
}

// TestManyStepsEqualOne: a bucket that is written at every step of the way
// ends like one that is looked at once in the end.
func TestManyStepsEqualOne(t *testing.T) {
	algorithms(t, func(t *testing.T, r *rand.Rand, a sluice.Algorithm) {
		for range 5_000 {
			p := compile(t, someLimit(r, a))
			once, now := someState(r, p)
			often := copyOf(&once)
			for range r.IntN(30) {
				now += r.Int64N(10)
				v := p.View(&often, now)
				if a == sluice.Concurrency {
					p.Board(&often, v, bucket.Holder{ID: "passing", Expires: now})
				} else {
					p.Take(&often, v, 0)
				}
			}
			cost := 1 + r.Int64N(p.Capacity)
			v, w := p.View(&once, now), p.View(&often, now)
			if v != w || p.RetryIn(&once, v, cost) != p.RetryIn(&often, w, cost) || p.ResetIn(&once, v) != p.ResetIn(&often, w) {
				t.Fatalf("%s: one step to %d gives %+v, many give %+v", p.Limit, now, v, w)
			}
		}
	})
}

// TestLookingWritesNothing: no question changes a state, nor does giving back
// nothing.
func TestLookingWritesNothing(t *testing.T) {
	algorithms(t, func(t *testing.T, r *rand.Rand, a sluice.Algorithm) {
		for range 500 {
			p := compile(t, someLimit(r, a))
			s, now := someState(r, p)
			print := func() string { return fmt.Sprintf("%+v %+v", s, s.Ext) }
			before := print()
			v := p.View(&s, now+r.Int64N(1000))
			p.RetryIn(&s, v, 1+r.Int64N(p.Capacity))
			p.ResetIn(&s, v)
			p.Grantable(&s, v, 1, p.Capacity)
			p.Touched(&s)
			p.Return(&s, v, sluice.HoldID{}, 1) // not there
			p.Refund(&s, v, 0, now)
			if after := print(); after != before {
				t.Fatalf("%s: before %s, after %s", p.Limit, before, after)
			}
		}
	})
}

// TestWaitsBeyondForeverAreCut: the slowest limit that can be written, deep in
// debt, answers a time that every store can add to its own.
func TestWaitsBeyondForeverAreCut(t *testing.T) {
	p := compile(t, sluice.Limit{Amount: sluice.Thousandths(1), Period: 5 * 366 * 24 * time.Hour, Burst: sluice.Thousandths(sluice.MaxThousandths)})
	var s bucket.State
	p.Take(&s, p.View(&s, epoch), 2*sluice.MaxThousandths)
	v := p.View(&s, epoch)
	if in := p.RetryIn(&s, v, p.Capacity); in != bucket.Forever {
		t.Errorf("retry in %d", in)
	}
	if in := p.ResetIn(&s, v); in != bucket.Forever {
		t.Errorf("reset in %d", in)
	}
}
