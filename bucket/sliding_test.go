package bucket_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// TestSlidingWindowAgainstAnExactLog holds a sliding window against the list
// of all it admitted. It is strict: what it admits fits into a window of the
// limit's length. And it is close: what it refuses would not have fitted into
// a window longer by one part.
func TestSlidingWindowAgainstAnExactLog(t *testing.T) {
	r := seeded(t)
	type entry struct{ t, amount int64 }
	for range 2_000 {
		l := sluice.Limit{
			Algorithm: sluice.SlidingWindow,
			Amount:    sluice.Thousandths(1 + r.Int64N(30)),
			Period:    time.Duration(16+r.Int64N(1000)) * time.Microsecond,
		}
		p := compile(t, l)
		period := l.Period.Microseconds()
		var s bucket.State
		var log []entry
		now := epoch - 5000 + r.Int64N(10_000)
		for range 100 {
			now += r.Int64N(1 + period/8)
			cost := 1 + r.Int64N(1+p.Capacity/4)
			_, ok := take(p, &s, now, cost)
			strict, close := cost, cost
			for _, e := range log {
				if now-e.t <= period {
					strict += e.amount
				}
				if (now-e.t)*bucket.SubWindows < period*(bucket.SubWindows+1) {
					close += e.amount
				}
			}
			if ok && strict > p.Capacity {
				t.Fatalf("%s: admitted %d at %d, which makes %d in one window", l, cost, now, strict)
			}
			if !ok && close <= p.Capacity {
				t.Fatalf("%s: refused %d at %d, with which there are only %d in a window and a part", l, cost, now, close)
			}
			if ok {
				log = append(log, entry{now, cost})
			}
		}
	}
}

// TestSlidingWindowBeforeTheEpoch: part numbers below zero are as good as any.
func TestSlidingWindowBeforeTheEpoch(t *testing.T) {
	p := parse(t, "3/32s sliding")
	var s bucket.State
	for now := int64(-100_000_000); now < 100_000_000; now += 7_000_000 {
		if v, ok := take(p, &s, now, 1000); !ok {
			in := p.RetryIn(&s, v, 1000)
			if _, ok := take(p, &s, v.Now+in, 1000); !ok || in <= 0 || in > 33_000_000 {
				t.Fatalf("at %d: %+v, retry in %d", now, v, in)
			}
			now = v.Now + in
		}
	}
}

func TestSlidingWindowRefunds(t *testing.T) {
	p := parse(t, "10/32s sliding") // parts of one second
	second := int64(1_000_000)
	var s bucket.State
	take(p, &s, epoch, 4000)
	take(p, &s, epoch+5*second, 6000)

	now := epoch + 10*second
	if n := p.Refund(&s, p.View(&s, now), 7000, epoch); n != 7000 {
		t.Errorf("refunded %d of what is still counted", n)
	}
	// The newest went first, so the rest leaves with the oldest part.
	if v := p.View(&s, epoch+33*second); !v.Idle() {
		t.Errorf("%d used after the oldest part left", v.Used)
	}

	now = epoch + 40*second
	take(p, &s, now, 5000)
	if n := p.Refund(&s, p.View(&s, now), 1000, epoch+7*second); n != 0 {
		t.Errorf("refunded %d of what is no longer counted", n)
	}
	if n := p.Refund(&s, p.View(&s, now), 1000, epoch+8*second); n != 1000 {
		t.Errorf("refunded %d of what is just counted", n)
	}
	if s.Consumed != 6000 { // less all that was refunded
		t.Errorf("net consumption is %d", s.Consumed)
	}
}
