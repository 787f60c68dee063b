package bucket_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// script reads operations from a fuzzer's bytes; after the last byte there
// are only zeros.
type script struct{ rest []byte }

func (in *script) byte() byte {
	if len(in.rest) == 0 {
		return 0
	}
	b := in.rest[0]
	in.rest = in.rest[1:]
	return b
}

// number is of any size up to most.
func (in *script) number(most int64) int64 {
	var buf [8]byte
	for i := range int(in.byte() % 9) {
		buf[i] = in.byte()
	}
	return int64(binary.LittleEndian.Uint64(buf[:]) % (uint64(most) + 1))
}

// limit is any valid one, or false.
func (in *script) limit() (*bucket.Spec, bool) {
	l := sluice.Limit{
		Algorithm: sluice.Algorithm(in.byte() % 4),
		Amount:    sluice.Thousandths(1 + in.number(sluice.MaxThousandths-1)),
	}
	switch l.Algorithm {
	case sluice.TokenBucket:
		l.Burst = sluice.Thousandths(in.number(sluice.MaxThousandths))
	case sluice.Concurrency:
		l.Amount = sluice.Thousandths(l.Amount.Thousandths() % 100 * sluice.Token)
	}
	if l.Algorithm != sluice.Concurrency {
		l.Period = time.Duration(1+in.number(maxPeriod-1)) * time.Microsecond
	}
	p, err := bucket.Compile(l)
	return p, err == nil
}

// FuzzTokens compares the arithmetic of token buckets with exact rational
// numbers, waits included.
func FuzzTokens(f *testing.F) {
	f.Add([]byte{0, 3, 0x10, 0x27, 0, 0, 3, 0x40, 0x42, 0x0f, 1, 2, 3, 4, 5, 6, 7, 8})
	f.Add([]byte("\x008888888888888888888888888888888888888888888888888888888888"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := script{data}
		in.rest = append([]byte{0}, in.rest...) // a token bucket
		p, ok := in.limit()
		if !ok {
			return
		}
		var s bucket.State
		ref := newRefTokens(p.Limit)
		now := in.number(1 << 51)
		for i := 0; len(in.rest) > 0 && i < 64; i++ {
			now = min(now+in.number(1<<50), 1<<52)
			v := p.View(&s, now)
			ref = ref.at(now)
			if v.Available() != ref.available() {
				t.Fatalf("%s at %d: %d available, exactly %d", p.Limit, now, v.Available(), ref.available())
			}
			cost := in.number(sluice.MaxThousandths)
			if wait := p.RetryIn(&s, v, cost); wait > 0 && wait < bucket.Forever {
				if ref.at(now+wait).available() < cost || ref.at(now+wait-1).available() >= cost {
					t.Fatalf("%s at %d: a cost of %d should not fit first after %d µs", p.Limit, now, cost, wait)
				}
			}
			switch in.byte() % 3 {
			case 0:
				ref.used.Add(ref.used, rat(p.Take(&s, v, cost)))
			case 1:
				if cost <= v.Available() {
					p.Take(&s, v, cost)
					ref.used.Add(ref.used, rat(cost))
				} else {
					p.Take(&s, v, 0)
				}
			case 2:
				ref.used.Sub(ref.used, rat(p.Refund(&s, v, cost, now)))
				if ref.used.Sign() < 0 {
					ref.used.SetInt64(0)
				}
			}
		}
	})
}

// FuzzAdopt changes between any two limits in any state: nothing panics,
// nothing is forgotten, and the waits of the new limit are exact.
func FuzzAdopt(f *testing.F) {
	f.Add([]byte{0, 1, 50, 1, 20, 2, 0x10, 0x27, 1, 1, 100, 2, 0, 1, 4, 1, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Add([]byte{1, 2, 50, 1, 2, 0x10, 0x27, 2, 1, 100, 2, 0, 1, 4, 1, 5, 6, 7, 8, 9, 10, 11, 12})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := script{data}
		from, ok := in.limit()
		if !ok {
			return
		}
		to, ok := in.limit()
		if !ok {
			return
		}
		var s bucket.State
		now := in.number(1 << 51)
		for i := uint64(0); len(in.rest) > 0 && i < 20; i++ {
			now = min(now+in.number(1<<48), 1<<52)
			in.operate(from, &s, now, i)
		}
		now += in.number(1 << 48)
		v := from.View(&s, now)
		used, consumed := v.Used+v.Held, s.Consumed
		to.Adopt(&s, from, now)
		w := to.View(&s, now)

		a, b := from.Limit.Algorithm, to.Limit.Algorithm
		// A token may come back with what was waiting for a millitoken.
		if a == b || a != sluice.Concurrency && b != sluice.Concurrency {
			most := to.Capacity + sluice.MaxThousandths
			if got := w.Used + w.Held; got < min(used, most)-1 || got > used {
				t.Fatalf("%s to %s: %d used became %d", from.Limit, to.Limit, used, got)
			}
		}
		if s.Consumed < consumed {
			t.Fatalf("%s to %s: net consumption went from %d to %d", from.Limit, to.Limit, consumed, s.Consumed)
		}
		cost := 1 + in.number(to.Capacity-1)
		if wait := to.RetryIn(&s, w, cost); wait > 0 && wait < bucket.Forever {
			before, after := to.View(&s, w.Now+wait-1), to.View(&s, w.Now+wait)
			if before.Available() >= cost || after.Available() < cost {
				t.Fatalf("%s to %s: a cost of %d should not fit first after %d µs (%+v)", from.Limit, to.Limit, cost, wait, w)
			}
		}
	})
}

// operate does one thing to a bucket of any kind.
func (in *script) operate(p *bucket.Spec, s *bucket.State, now int64, i uint64) {
	v := p.View(s, now)
	amount := in.number(p.Capacity)
	what := in.byte()
	switch {
	case p.Limit.Algorithm == sluice.Concurrency:
		if amount > 0 && amount <= v.Available() {
			p.Board(s, v, bucket.Holder{ID: string(rune('a' + i)), Cost: amount, Expires: v.Now + in.number(1<<48)})
		}
	case what%3 == 0 && p.Holdable():
		if n := p.Grantable(s, v, 1, amount); n > 0 {
			p.Hold(s, v, bucket.Hold{ID: sluice.HoldID{Seq: i}, Amount: n, Expires: v.Now + in.number(1<<48)})
		}
	case what%3 == 1:
		p.Refund(s, v, amount, now-in.number(1<<48))
	default:
		p.Take(s, v, amount)
	}
}
