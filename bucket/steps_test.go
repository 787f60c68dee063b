package bucket_test

import (
	"testing"
	"time"

	"github.com/sluice-go/sluice/bucket"
)

func TestTokenBucketSteps(t *testing.T) {
	run(t, "10/s burst 20", []step{
		{0, 20, true, 0, 0},
		{0, 1, false, 0, 100 * ms},
		{99 * ms, 1, false, 0.99, 1 * ms},
		{100 * ms, 1, true, 0, 0},
		{600 * ms, 3, true, 2, 0},
		{600 * ms, 3, false, 2, 100 * ms},
		{600 * ms, 21, false, 2, never},   // a cost above the burst is told so, not to come back
		{500 * ms, 2, true, 0, 0},         // the clock went back: nothing is lost
		{400 * ms, 1, false, 0, 300 * ms}, // and nothing is refilled twice: it has to catch up first
		{650 * ms, 0.5, true, 0, 0},
		{time.Hour, 20, true, 0, 0}, // a long gap fills to the burst, not beyond
		{time.Hour, 0.001, false, 0, 100 * time.Microsecond},
	})
	run(t, "100/minute", []step{
		{0, 100, true, 0, 0},
		{0, 1, false, 0, 600 * ms},
		{0, 100, false, 0, time.Minute},
		{599 * ms, 1, false, 0.998, 1 * ms},
		{600 * ms, 1, true, 0, 0},
		{59*time.Second + 999*ms, 100, false, 98.998, 601 * ms},
		{60*time.Second + 600*ms, 100, true, 0, 0},
	})
	run(t, "1/day", []step{
		{0, 1, true, 0, 0},
		{0, 1, false, 0, 24 * time.Hour},
		{24*time.Hour - time.Microsecond, 1, false, 0.999, time.Microsecond},
		{24 * time.Hour, 1, true, 0, 0},
	})
	run(t, "3/7us", []step{ // a rate that divides nothing
		{0, 3, true, 0, 0},
		{1 * time.Microsecond, 0.429, false, 0.428, time.Microsecond},
		{2 * time.Microsecond, 0.857, true, 0, 0},
		{7 * time.Microsecond, 2.143, true, 0, 0},
	})
}

func TestSlidingWindowSteps(t *testing.T) {
	run(t, "10/32s sliding", []step{ // parts of one second
		{0, 4, true, 6, 0},
		{500 * ms, 2, true, 4, 0},
		{10 * time.Second, 4, true, 0, 0},
		{10 * time.Second, 1, false, 0, 23 * time.Second},
		{10 * time.Second, 6, false, 0, 23 * time.Second},
		{10 * time.Second, 7, false, 0, 33 * time.Second},
		{10 * time.Second, 11, false, 0, never},
		{32*time.Second + 999*ms, 1, false, 0, 1 * ms}, // the oldest part counts in full
		{33 * time.Second, 6, true, 0, 0},
		{20 * time.Second, 1, false, 0, 23 * time.Second}, // the clock went back: as at 33 s, once it has caught up
		{43 * time.Second, 4, true, 0, 0},
		{time.Hour, 10, true, 0, 0},
	})
}

func TestFixedWindowSteps(t *testing.T) {
	run(t, "10/minute fixed", []step{
		{59 * time.Second, 10, true, 0, 0},
		{59 * time.Second, 1, false, 0, time.Second},
		{59 * time.Second, 11, false, 0, never},
		{60*time.Second - time.Microsecond, 1, false, 0, time.Microsecond},
		{60 * time.Second, 10, true, 0, 0},                         // twice the limit in a moment: what fixed windows mean
		{59 * time.Second, 1, false, 0, time.Minute + time.Second}, // the clock went back: still the newer window
		{120 * time.Second, 3, true, 7, 0},
		{150 * time.Second, 8, false, 7, 30 * time.Second},
		{time.Hour, 10, true, 0, 0},
	})
}

// TestFixedWindowRefunds: only what was taken in this window comes back.
func TestFixedWindowRefunds(t *testing.T) {
	p := parse(t, "10/minute fixed")
	var s bucket.State
	take(p, &s, epoch, 4000)
	take(p, &s, epoch+60*second, 3000)
	now := epoch + 70*second
	if n := p.Refund(&s, p.View(&s, now), 1000, epoch+60*second-1); n != 0 {
		t.Errorf("refunded %d of the last window into this one", n)
	}
	if n := p.Refund(&s, p.View(&s, now), 5000, epoch+60*second); n != 3000 {
		t.Errorf("refunded %d of this window's 3000", n)
	}
	if s.Consumed != 1000 { // less all that was refunded
		t.Errorf("net consumption is %d", s.Consumed)
	}
}
