package bucket_test

import (
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// TestChangedLimits: what is used stays used, and is repaid by the new rules.
func TestChangedLimits(t *testing.T) {
	for _, c := range []struct {
		from, to  string
		cost      int64
		available int64 // at once under the new limit
		retry     int64 // for one token more than that
	}{
		{"10/s burst 20", "10/s burst 50", 20_000, 30_000, 100_000},   // raised: room at once
		{"10/s burst 20", "10/s burst 5", 20_000, -15_000, 1_600_000}, // lowered: closed until repaid
		{"10/s burst 20", "100/s burst 20", 20_000, 0, 10_000},        // faster
		{"10/s burst 20", "1/minute burst 20", 20_000, 0, 60_000_000}, // slower
		{"10/minute fixed", "15/minute fixed", 10_000, 5_000, 45_000_000},
		{"10/minute fixed", "15/hour fixed", 10_000, 5_000, 3_585_000_000},
		{"10/minute fixed", "10/s", 4_000, 6_000, 100_000},
		{"10/s", "10/minute fixed", 4_000, 6_000, 45_000_000},
		{"10/32s sliding", "12/32s sliding", 10_000, 2_000, 33_000_000},
		{"10/32s sliding", "12/64s sliding", 10_000, 2_000, 65_000_000},
		{"10/32s sliding", "10/s burst 20", 10_000, 10_000, 100_000},
		{"10/s", "20/32s sliding", 10_000, 10_000, 33_000_000},
		{"20/day UTC", "30/day UTC", 20_000, 10_000, 86_385_000_000},
		{"20/day UTC", "30/day Asia/Tokyo", 20_000, 10_000, 53_985_000_000},
		{"10/s", "5 concurrent", 10_000, 5_000, 0}, // starts anew
	} {
		t.Run(c.from+" to "+c.to, func(t *testing.T) {
			from, to := parse(t, c.from), parse(t, c.to)
			var s bucket.State
			now := epoch + 15*second
			take(from, &s, now, c.cost)
			to.Adopt(&s, from, now)
			v := to.View(&s, now)
			if v.Available() != c.available {
				t.Errorf("%d available, want %d", v.Available(), c.available)
			}
			if c.retry > 0 {
				if in := to.RetryIn(&s, v, max(v.Available(), 0)+1000); in != c.retry {
					t.Errorf("one more in %d µs, want %d", in, c.retry)
				}
			}
			if s.Consumed != c.cost {
				t.Errorf("net consumption is %d", s.Consumed)
			}
		})
	}
}

// TestChangedLimitsKeepHolds: between token buckets a hold goes on; anywhere
// else it counts as used, and its return comes too late.
func TestChangedLimitsKeepHolds(t *testing.T) {
	from := parse(t, "10/s burst 20")
	id := sluice.HoldID{Seq: 1}
	for to, stays := range map[string]bool{
		"10/s burst 40": true, "10/minute fixed": false, "20/s sliding": false,
	} {
		p := parse(t, to)
		var s bucket.State
		hold(from, &s, epoch, 4000, 60*second, 1)
		take(from, &s, epoch, 2000)
		p.Adopt(&s, from, epoch)
		v := p.View(&s, epoch)
		if v.Available() != p.Capacity-6000 || (v.Held == 4000) != stays {
			t.Errorf("%s: %+v", to, v)
		}
		if want := map[bool]int64{true: 2000, false: 6000}[stays]; s.Consumed != want {
			t.Errorf("%s: net consumption is %d, want %d", to, s.Consumed, want)
		}
		if p.Return(&s, v, id, 0) != stays {
			t.Errorf("%s: the hold should stay: %v", to, stays)
		}
	}
}

// TestLimitsInTurns: two nodes that disagree about a limit and ask in turns,
// more often than a millitoken takes, still see it refill: faster than by the
// slower limit and no faster than by the faster one.
func TestLimitsInTurns(t *testing.T) {
	for _, c := range []struct{ slow, fast string }{
		{"1/s burst 100", "1/s burst 200"},
		{"1/s burst 100", "2/s burst 100"},
		{"1/s burst 100", "3/s burst 150"},
		{"10/minute burst 100", "11/minute burst 100"},
	} {
		slow, fast := parse(t, c.slow), parse(t, c.fast)
		var s bucket.State
		slow.Take(&s, slow.View(&s, epoch), 100_000)
		now := epoch
		for p, q := slow, fast; now < epoch+2*second; p, q = q, p {
			now += 10
			q.Adopt(&s, p, now)
		}
		repaid := 100_000 - s.Used
		least, most := rateFor(slow, 2*second), rateFor(fast, 2*second)
		// Each change may lose what is below a microsecond.
		if repaid > most || repaid < least*9/10 {
			t.Errorf("%s and %s in turns repaid %d in 2 s, want %d to %d", c.slow, c.fast, repaid, least, most)
		}
	}
}

func rateFor(p *bucket.Spec, us int64) int64 {
	amount, period := p.Limit.Rate()
	return us * amount / period
}

// TestFasterRateDoesNotReachBack: the time a slow limit has waited for its
// next millitoken is not paid at the faster rate that follows it.
func TestFasterRateDoesNotReachBack(t *testing.T) {
	slow, fast := parse(t, "1/day burst 1000"), parse(t, "1000/s burst 1000")
	var s bucket.State
	take(slow, &s, epoch, 1)
	now := epoch + 86*second // nearly a millitoken, by the slow limit
	take(slow, &s, now, slow.Capacity-1)
	fast.Adopt(&s, slow, now)
	if v := fast.View(&s, now); v.Available() > 1 {
		t.Errorf("%d millitokens came back at once", v.Available())
	}
}
