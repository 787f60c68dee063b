package sluice_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

func TestLimitValidation(t *testing.T) {
	for _, c := range []struct {
		limit sluice.Limit
		want  string
	}{
		{sluice.Limit{}, "limit.amount: 0: must be above 0 and at most 1000000000000"},
		{sluice.Limit{Algorithm: 4, Amount: sluice.Thousandths(1), Period: 1},
			"limit.algorithm: algorithm 4: must be token bucket, sliding window, fixed window or concurrency"},
		{sluice.Per(-1, time.Second), "limit.amount: -1: must be above 0 and at most 1000000000000"},
		{sluice.Per(math.MaxInt64, time.Second), "limit.amount: 1000000000000.001: must be above 0 and at most 1000000000000"},
		{sluice.Per(math.MinInt64, time.Second), "limit.amount: -1000000000000.001: must be above 0 and at most 1000000000000"},
		{sluice.Per(1, time.Second).WithBurst(-1), "limit.burst: -1: must be between 0 (the amount) and 1000000000000"},
		{sluice.Limit{Amount: sluice.Thousandths(1), Period: time.Second, Burst: sluice.Thousandths(-5)}, "limit.burst: -0.005: must be between 0 (the amount) and 1000000000000"},
		{sluice.Limit{Algorithm: sluice.SlidingWindow, Amount: sluice.Thousandths(1), Period: time.Second, Burst: sluice.Thousandths(1000)},
			"limit.burst: 1: only a token bucket has a burst, not a sliding window"},
		{sluice.Per(1, 0), "limit.period: 0s: must be a whole number of microseconds, from 1µs to 5 years"},
		{sluice.Per(1, -time.Second), "limit.period: -1s: must be a whole number of microseconds, from 1µs to 5 years"},
		{sluice.Per(1, 1500), "limit.period: 1.5µs: must be a whole number of microseconds, from 1µs to 5 years"},
		{sluice.Per(1, 1831*day), "limit.period: 43944h0m0s: must be a whole number of microseconds, from 1µs to 5 years"},
		{sluice.Limit{Amount: sluice.Thousandths(999_999_999_999), Period: 1830 * day},
			"limit.amount: 999999999.999/43920h0m0s: cannot be kept exactly: choose a rounder amount or a shorter period"},
		{sluice.Limit{Algorithm: sluice.Concurrency, Amount: sluice.Thousandths(1500)}, "limit.amount: 1.5: concurrency must be a whole number of at most 100000"},
		{sluice.Limit{Algorithm: sluice.Concurrency, Amount: sluice.Tokens(1), Period: time.Second},
			"limit.period: 1s: a concurrency with this setting has no period; leave it 0"},
		{sluice.Limit{Algorithm: sluice.FixedWindow, Amount: sluice.Thousandths(1), Calendar: sluice.CalendarDay, Zone: "UTC", Period: time.Second},
			"limit.period: 1s: a fixed window with this setting has no period; leave it 0"},
		{sluice.Limit{Algorithm: sluice.FixedWindow, Amount: sluice.Thousandths(1), Calendar: 3, Zone: "UTC"}, "limit.calendar: 3: must be none, day or month"},
		{sluice.Limit{Amount: sluice.Thousandths(1), Calendar: sluice.CalendarDay, Zone: "UTC"},
			"limit.calendar: token bucket: only a fixed window follows the calendar"},
		{sluice.Limit{Algorithm: sluice.FixedWindow, Amount: sluice.Thousandths(1), Calendar: sluice.CalendarDay},
			"limit.zone: : must be a time zone such as UTC or Europe/Madrid"},
		{sluice.Limit{Algorithm: sluice.FixedWindow, Amount: sluice.Thousandths(1), Calendar: sluice.CalendarDay, Zone: strings.Repeat("x", 1000)},
			"limit.zone: " + strings.Repeat("x", 60) + "…: must be a time zone such as UTC or Europe/Madrid"},
		{sluice.Limit{Amount: sluice.Thousandths(1), Period: time.Second, Zone: "UTC"},
			"limit.zone: UTC: a time zone goes with a calendar day or month"},
	} {
		err := c.limit.Validate()
		var fe *sluice.FieldError
		if !errors.As(err, &fe) || err.Error() != c.want {
			t.Errorf("%#v:\n got %v\nwant %s", c.limit, err, c.want)
		}
	}
}

// TestExactRange: rates are refused only where they cannot be kept exactly,
// in lowest terms.
func TestExactRange(t *testing.T) {
	for _, c := range []struct {
		amount int64
		period time.Duration
		ok     bool
	}{
		{1, 1830 * day, true},
		{sluice.MaxThousandths, time.Microsecond, true},
		{sluice.MaxThousandths, time.Second, true}, // 10^9 per µs
		{sluice.MaxThousandths, 1830 * day, true},  // 156250000/24705
		{sluice.MaxThousandths - 1, time.Second, false},
		{1_000_001, 365 * day, false},
		{1_000_000, 365 * day, true},
		{100_000 * sluice.Token, 365 * day, true},
		{123_457 * sluice.Token, 365 * day, true},
	} {
		l := sluice.Limit{Amount: sluice.Thousandths(c.amount), Period: c.period}
		if err := l.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", l, err)
		}
		if amount, period := l.Rate(); c.ok && float64(amount+1)*float64(period) >= 1<<53 {
			t.Errorf("%s is %d/%d, which is not exact", l, amount, period)
		}
	}
}

func TestRateInLowestTerms(t *testing.T) {
	for _, c := range []struct {
		limit          string
		amount, period int64
	}{
		{"100/minute", 1, 600}, {"10/s", 1, 100}, {"3/7us", 3000, 7}, {"1000/us", 1_000_000, 1}, {"0.001/day", 1, 86_400_000_000},
	} {
		if amount, period := sluice.MustParse(c.limit).Rate(); amount != c.amount || period != c.period {
			t.Errorf("%s is %d/%d, want %d/%d", c.limit, amount, period, c.amount, c.period)
		}
	}
}

func TestCapacity(t *testing.T) {
	for limit, want := range map[string]int64{
		"10/s": 10_000, "10/s burst 25": 25_000, "10/s burst 5": 5000, "10/s sliding": 10_000, "10/day UTC": 10_000, "3 concurrent": 3000,
	} {
		if got := sluice.MustParse(limit).Capacity().Thousandths(); got != want {
			t.Errorf("%s holds %s, want %s", limit, sluice.Thousandths(got), sluice.Thousandths(want))
		}
	}
}

func TestZone(t *testing.T) {
	for _, name := range []string{"", "Local", "Nowhere/Land", "../etc/passwd"} {
		if loc, err := sluice.Zone(name); err == nil {
			t.Errorf("%q is %v", name, loc)
		}
	}
	a, err := sluice.Zone("Europe/Madrid")
	b, _ := sluice.Zone("Europe/Madrid")
	if err != nil || a != b || a.String() != "Europe/Madrid" {
		t.Errorf("%v, %v, %v", a, b, err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		got  interface{ String() string }
		want string
	}{
		{sluice.TokenBucket, "token bucket"}, {sluice.SlidingWindow, "sliding window"},
		{sluice.FixedWindow, "fixed window"}, {sluice.Concurrency, "concurrency"}, {sluice.Algorithm(9), "algorithm 9"},
		{sluice.Degrade, "degrade"}, {sluice.Deny, "deny"}, {sluice.Allow, "allow"}, {sluice.OnUnavailable(9), "9"},
		{sluice.LevelDefault, "default"}, {sluice.LevelEntityResource, "entity+resource"}, {sluice.LevelCall, "call"},
		{sluice.FromStore, "store"}, {sluice.FromDenyCache, "denyCache"}, {sluice.Unknown, "unknown"},
		{sluice.Adjust, "adjust"}, {sluice.Release, "release"},
		{sluice.Key{}, ""}, {sluice.Key{Entity: "ann", Limit: "rpm"}, "ann/rpm"},
		{sluice.Key{Namespace: "n", Entity: "e", Resource: "r", Limit: "l"}, "n/e/r/l"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%#v is called %q, want %q", c.got, got, c.want)
		}
	}
}
