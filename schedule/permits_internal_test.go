package schedule

import (
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// TestReceiverLimit looks at limits that are counted in other terms, and checks
// that they are never looser.
func TestReceiverLimit(t *testing.T) {
	for limit, want := range map[string]struct {
		n      int64
		period time.Duration
	}{
		"50/s burst 1": {50, time.Second},
		"2.5/s":        {2, time.Second},
		"0.5/s":        {1, 2*time.Second + time.Microsecond},
		"1000/hour":    {2, 7200 * time.Millisecond},
		"7/minute":     {1, (time.Minute + 6) / 7},
		"60/10s":       {60, 10 * time.Second},
		"1000000/s":    {100_000, 100 * time.Millisecond},
		"1/day":        {1, 24 * time.Hour},
	} {
		l := sluice.MustParse(limit)
		n, period := receiverLimit(l)
		if n != want.n || period != want.period {
			t.Errorf("%s is counted as %d in %s, want %d in %s", limit, n, period, want.n, want.period)
		}
		if l.Amount.Whole() == 0 {
			continue
		}
		if periods := (l.Period + period - 1) / period; int64(periods)*n > l.Amount.Whole() {
			t.Errorf("%s is counted as %d in %s, which allows more", limit, n, period)
		}
	}
}

// TestStartsAreCovered has a lease grow old, by either clock.
func TestStartsAreCovered(t *testing.T) {
	p := newPermits(&DispatcherConfig{Limit: sluice.Per(50, time.Second), Timeout: time.Second}, nil, slog.New(slog.DiscardHandler))
	now := time.Now()
	for _, test := range []struct {
		name  string
		asked time.Time
		ok    bool
	}{
		{"new", now, true},
		{"used past its turn", now.Add(-p.turn() - time.Second), true},
		{"too old", now.Add(-p.covering()), false},
		{"too old by the wall clock", now.Round(0).Add(-p.covering()), false},
	} {
		p.leases = []permitLease{{id: "a", n: 50, asked: test.asked}}
		if ok := p.try(now) == 0; ok != test.ok {
			t.Errorf("%s: started is %t", test.name, ok)
		}
		p.running, p.paced = 0, time.Time{}
	}
	if least := p.covering() + p.timeout + p.period; p.lifetime() <= least {
		t.Errorf("a lease lives for %s, and what was started under it may be in use for %s", p.lifetime(), least)
	}
}
