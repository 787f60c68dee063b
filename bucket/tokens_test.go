package bucket_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// floored is the refill that is often written to avoid drift: whole
// millitokens are added, and the time is put forward by what they took,
// rounded down. Each rounding leaves time to be counted once more.
type floored struct {
	tokens, last   int64 // millitokens, milliseconds
	amount, period int64 // millitokens per milliseconds
}

func (f *floored) refill(now int64) {
	add := (now - f.last) * f.amount / f.period
	f.tokens += add
	f.last += add * f.period / f.amount
}

// TestPollingMintsNothing asks a bucket of 100/minute every millisecond. The
// floored refill gives 1.8 times the rate; the exact remainder gives the rate.
func TestPollingMintsNothing(t *testing.T) {
	const poll, minute = time.Millisecond, time.Minute
	f := floored{amount: 100_000, period: minute.Milliseconds()}
	p := compile(t, sluice.Per(100, minute).WithBurst(1000))
	var s bucket.State
	p.Take(&s, p.View(&s, epoch), p.Capacity)
	for now := poll; now <= minute; now += poll {
		f.refill(now.Milliseconds())
		p.Take(&s, p.View(&s, epoch+now.Microseconds()), 0) // a write, though of nothing
	}
	if f.tokens < 179_000 {
		t.Errorf("the floored refill gave %d millitokens: is the trap still what it was?", f.tokens)
	}
	if v := p.View(&s, epoch+minute.Microseconds()); v.Available() != 100_000 || v.Rem != 0 {
		t.Errorf("polled every ms, 100/minute gave %d millitokens in a minute, and a rest of %d", v.Available(), v.Rem)
	}
}

// TestLateTimestampsMintNothing: requests that arrive out of order do not
// rewind the bucket.
func TestLateTimestampsMintNothing(t *testing.T) {
	p := parse(t, "10/s")
	var s bucket.State
	take(p, &s, epoch, 10_000)
	for i := range int64(100) {
		late := epoch - i*1_000_000
		if v, ok := take(p, &s, late, 1); ok {
			t.Fatalf("a take at %d passed: %+v", late-epoch, v)
		}
	}
	if _, ok := take(p, &s, epoch+100_000, 1001); ok {
		t.Error("more than 100 ms of refill after late takes")
	}
}

// TestIdleThenBurst: a bucket that was idle for long gives its burst once.
func TestIdleThenBurst(t *testing.T) {
	p := parse(t, "10/s burst 20")
	for _, idle := range []int64{1, 1_000_000, 3_600_000_000, 1 << 50} {
		var s bucket.State
		take(p, &s, epoch, 1000)
		passed := 0
		for range 100 {
			if _, ok := take(p, &s, epoch+100_000+idle, 1000); ok {
				passed++
			}
		}
		if passed != 20 {
			t.Errorf("%d passed at once after %d µs", passed, idle)
		}
	}
}

// TestDebtIsRepaid: a cost beyond the capacity is owed, up to a cap, and
// refill pays it back before anything passes.
func TestDebtIsRepaid(t *testing.T) {
	p := parse(t, "10/s burst 20")
	var s bucket.State
	if n := p.Take(&s, p.View(&s, epoch), 50_000); n != 50_000 {
		t.Fatalf("took %d", n)
	}
	v := p.View(&s, epoch)
	if v.Available() != -30_000 {
		t.Errorf("%d available", v.Available())
	}
	if in := p.RetryIn(&s, v, 1000); in != 3_100_000 {
		t.Errorf("one token in %d µs", in)
	}
	if in := p.ResetIn(&s, v); in != 5_000_000 {
		t.Errorf("full in %d µs", in)
	}

	most := sluice.MaxThousandths
	if n := p.Take(&s, v, most); n != most-30_000 {
		t.Errorf("a debt of %d was made larger by %d", 30_000, n)
	}
	if n := p.Take(&s, p.View(&s, epoch), 1); n != 0 {
		t.Errorf("%d above the largest debt", n)
	}
	if v := p.View(&s, epoch); v.Available() != -most {
		t.Errorf("the largest debt is %d", v.Available())
	}
}

// TestRefundsFillAtMost: what was refilled in the meantime is not given twice.
func TestRefundsFillAtMost(t *testing.T) {
	p := parse(t, "10/s burst 20")
	var s bucket.State
	take(p, &s, epoch, 20_000)
	now := epoch + 1_000_000
	if n := p.Refund(&s, p.View(&s, now), 20_000, epoch); n != 10_000 {
		t.Errorf("refunded %d, of which half was refilled already", n)
	}
	if v := p.View(&s, now); !v.Idle() || v.Available() != 20_000 {
		t.Errorf("%+v", v)
	}
	if s.Consumed != 0 { // all of it was refunded, however little came back
		t.Errorf("net consumption is %d", s.Consumed)
	}
	if n := p.Refund(&s, p.View(&s, now), -5000, epoch); n != 0 {
		t.Errorf("a negative refund took %d", -n)
	}
}

// TestResetForgets: what is used and owed is forgotten, but not who holds
// what.
func TestResetForgets(t *testing.T) {
	p := parse(t, "10/s burst 20")
	var s bucket.State
	p.Hold(&s, p.View(&s, epoch), bucket.Hold{ID: sluice.HoldID{Seq: 1}, Amount: 5000, Expires: epoch + 1_000_000})
	p.Take(&s, p.View(&s, epoch), 40_000)
	p.Reset(&s, p.View(&s, epoch+333))
	v := p.View(&s, epoch+333)
	if v.Used != 0 || v.Rem != 0 || v.Held != 5000 || v.Available() != 15_000 || s.Consumed != 0 {
		t.Errorf("%+v, %+v", v, s)
	}
}

// TestConsumedSaturates: the lifetime counter stays within what every store
// can keep.
func TestConsumedSaturates(t *testing.T) {
	p := compile(t, sluice.Limit{Amount: sluice.Thousandths(sluice.MaxThousandths), Period: time.Microsecond})
	var s bucket.State
	now := epoch
	for range 30 {
		p.Take(&s, p.View(&s, now), sluice.MaxThousandths)
		now++
	}
	if s.Consumed != 1<<53-1 {
		t.Errorf("consumed %d", s.Consumed)
	}
	p.Hold(&s, p.View(&s, now), bucket.Hold{ID: sluice.HoldID{Seq: 1}, Amount: 1000, Expires: now + second})
	if n := p.ConsumedBy(&s, p.View(&s, now+second)); n != 1<<53-1 {
		t.Errorf("consumed %d after a hold expired", n)
	}
}
