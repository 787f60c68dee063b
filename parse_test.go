package sluice_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // so that every machine knows the same zones

	"github.com/sluice-go/sluice"
)

const day = 24 * time.Hour

func TestParse(t *testing.T) {
	bucket := func(amount float64, period time.Duration, burst float64) sluice.Limit {
		return sluice.Limit{Amount: sluice.Thousandths(tokens(amount)), Period: period, Burst: sluice.Thousandths(tokens(burst))}
	}
	window := func(a sluice.Algorithm, amount float64, period time.Duration) sluice.Limit {
		return sluice.Limit{Algorithm: a, Amount: sluice.Thousandths(tokens(amount)), Period: period}
	}
	calendar := func(amount float64, c sluice.Calendar, zone string) sluice.Limit {
		return sluice.Limit{Algorithm: sluice.FixedWindow, Amount: sluice.Thousandths(tokens(amount)), Calendar: c, Zone: zone}
	}
	for _, c := range []struct {
		in     string
		want   sluice.Limit
		string string // as it is written back
	}{
		{"100/minute", bucket(100, time.Minute, 0), "100/minute"},
		{"10/s burst 20", bucket(10, time.Second, 20), "10/s burst 20"},
		{"  10/sec   burst\t20 ", bucket(10, time.Second, 20), "10/s burst 20"},
		{"1000/24h", bucket(1000, day, 0), "1000/day"},
		{"1000/day", bucket(1000, day, 0), "1000/day"},
		{"1000/days burst 5", bucket(1000, day, 5), "1000/day burst 5"},
		{"1.5/s", bucket(1.5, time.Second, 0), "1.5/s"},
		{"0.001/h", bucket(0.001, time.Hour, 0), "0.001/hour"},
		{"10k/15min", bucket(10_000, 15*time.Minute, 0), "10000/15m"},
		{"1.5k/m", bucket(1500, time.Minute, 0), "1500/minute"},
		{"1.0005k/m", bucket(1000.5, time.Minute, 0), "1000.5/minute"},
		{"2M/hour burst 3M", bucket(2_000_000, time.Hour, 3_000_000), "2000000/hour burst 3000000"},
		{"1_000/week", bucket(1000, 7*day, 0), "1000/7d"},
		{"5/2w", bucket(5, 14*day, 0), "5/14d"},
		{"5/1h30m", bucket(5, 90*time.Minute, 0), "5/90m"},
		{"5/90s", bucket(5, 90*time.Second, 0), "5/90s"},
		{"5/1500ms", bucket(5, 1500*time.Millisecond, 0), "5/1500ms"},
		{"5/ms", bucket(5, time.Millisecond, 0), "5/ms"},
		{"5/7us", bucket(5, 7*time.Microsecond, 0), "5/7us"},
		{"5/7µs", bucket(5, 7*time.Microsecond, 0), "5/7us"},
		{"7/1830d", bucket(7, 1830*day, 0), "7/1830d"},
		{"1000000000000/s", bucket(1e12, time.Second, 0), "1000000000000/s"},
		{"100/minute sliding", window(sluice.SlidingWindow, 100, time.Minute), "100/minute sliding"},
		{"100/day sliding", window(sluice.SlidingWindow, 100, day), "100/day sliding"},
		{"100/minute fixed", window(sluice.FixedWindow, 100, time.Minute), "100/minute fixed"},
		{"100/day fixed", window(sluice.FixedWindow, 100, day), "100/day fixed"},
		{"1000/day Europe/Madrid", calendar(1000, sluice.CalendarDay, "Europe/Madrid"), "1000/day Europe/Madrid"},
		{"50k/month UTC", calendar(50_000, sluice.CalendarMonth, "UTC"), "50000/month UTC"},
		{"5 concurrent", sluice.Limit{Algorithm: sluice.Concurrency, Amount: sluice.Thousandths(tokens(5))}, "5 concurrent"},
		{"unlimited", sluice.Unlimited, "unlimited"},
		{"1000000000000/us", sluice.Unlimited, "unlimited"},
	} {
		got, err := sluice.Parse(c.in)
		if err != nil || got != c.want {
			t.Errorf("%q: %#v, %v; want %#v", c.in, got, err, c.want)
		}
		if s := got.String(); s != c.string {
			t.Errorf("%q is written back as %q, want %q", c.in, s, c.string)
		}
		if again, err := sluice.Parse(got.String()); err != nil || again != got {
			t.Errorf("%q, read again: %#v, %v", got, again, err)
		}
	}
}

func tokens(n float64) int64 { return int64(n*float64(sluice.Token) + 0.5) }

func TestParseSaysWhatIsWrong(t *testing.T) {
	const (
		grammar = `want for example "100/minute", "10/s burst 20", "50000/month UTC" or "5 concurrent"`
		period  = `is not a period: want a unit such as s, minute, h, day or week, with a number before it if it is not one`
		amount  = `is not an amount: want a number such as 100, 1.5 or 10k`
		month   = `a month needs a time zone ("50000/month UTC"); write 30d for thirty days`
		zone    = `must be a time zone such as UTC or Europe/Madrid`
	)
	for in, want := range map[string]string{
		"":                         grammar,
		" ":                        grammar,
		"100":                      grammar,
		"5 parallel":               grammar,
		"5 concurrent now":         grammar,
		"10/s burst 2 burst 3":     grammar,
		"10/s burst":               `unexpected "burst": ` + grammar,
		"10/s fast":                `unexpected "fast": ` + grammar,
		"10/s UTC":                 `unexpected "UTC": ` + grammar,
		"10/s sliding fixed":       `unexpected "fixed": ` + grammar,
		"10/day sliding UTC":       `unexpected "UTC": ` + grammar,
		"100/":                     `"" ` + period,
		"100/fortnight":            `"fortnight" ` + period,
		"100/minute/s":             `"minute/s" ` + period,
		"10/5 s":                   `"5" ` + period,
		"10/1h30":                  `"1h30" ` + period,
		"10/1ns":                   `"1ns" ` + period,
		"10/6000d":                 `period "6000d" is longer than 5 years`,
		"10/99999999999999999999d": `period "99999999999999999999d" is out of range`,
		"10/0s":                    `limit.period: 0s: must be a whole number of microseconds, from 1µs to 5 years`,
		"/minute":                  `"" ` + amount,
		"x/s":                      `"x" ` + amount,
		"1e3/s":                    `"1e3" ` + amount,
		"1k5/s":                    `"1k5" ` + amount,
		"1kk/s":                    `"1kk" ` + amount,
		"_1/s":                     `"_1" ` + amount,
		"1_/s":                     `"1_" ` + amount,
		"1./s":                     `"1." ` + amount,
		".5/s":                     `".5" ` + amount,
		"--1/s":                    `"--1" ` + amount,
		"10/s burst x":             `"x" ` + amount,
		"1.2345/s":                 `"1.2345" is not an amount: it has more than three decimals`,
		"1000000000001/s":          `"1000000000001" is not an amount: it is above 1000000000000`,
		"1000000000000.001/s":      `"1000000000000.001" is not an amount: it is above 1000000000000`,
		"1000001M/s":               `"1000001M" is not an amount: it is above 1000000000000`,
		"-1/s":                     `limit.amount: -1: must be above 0 and at most 1000000000000`,
		"0/s":                      `limit.amount: 0: must be above 0 and at most 1000000000000`,
		"10/s burst 0":             `limit.burst: 0: must be above 0; leave it out for a burst of the amount`,
		"10/s burst -2":            `limit.burst: -2: must be above 0; leave it out for a burst of the amount`,
		"10/s sliding burst 5":     `limit.burst: 5: only a token bucket has a burst, not a sliding window`,
		"10/month":                 month,
		"10/month sliding":         month,
		"10/month UTC extra":       month,
		"10/day Nowhere/Land":      `limit.zone: Nowhere/Land: ` + zone,
		"10/day Local":             `limit.zone: Local: ` + zone,
		"10/day ../../etc/passwd":  `limit.zone: ../../etc/passwd: ` + zone,
		"0 concurrent":             `limit.amount: 0: must be above 0 and at most 1000000000000`,
		"1.5 concurrent":           `limit.amount: 1.5: concurrency must be a whole number of at most 100000`,
		"100001 concurrent":        `limit.amount: 100001: concurrency must be a whole number of at most 100000`,
		"999999999.999/1830d": `limit.amount: 999999999.999/43920h0m0s: cannot be kept exactly: ` +
			`choose a rounder amount or a shorter period`,
	} {
		l, err := sluice.Parse(in)
		if err == nil {
			t.Errorf("%q was read as %s", in, l)
			continue
		}
		if got, want := err.Error(), `limit "`+in+`": `+want; got != want {
			t.Errorf("%q:\n got %s\nwant %s", in, got, want)
		}
		if l != (sluice.Limit{}) {
			t.Errorf("%q: a limit beside the error: %#v", in, l)
		}
	}
}

func TestParseErrorsAreShort(t *testing.T) {
	for _, in := range []string{
		strings.Repeat("9", 10_000),
		strings.Repeat("9", 150) + "/s",
		"9/" + strings.Repeat("9", 150) + "s",
		"9/" + strings.Repeat("x", 150),
		"9/s " + strings.Repeat("x", 150),
		"9/day " + strings.Repeat("x", 150),
	} {
		if _, err := sluice.Parse(in); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.40q…: %v", in, err)
		}
	}
}

func TestMustParse(t *testing.T) {
	if l := sluice.MustParse("10/s"); l != sluice.Per(10, time.Second) {
		t.Errorf("%#v", l)
	}
	defer func() {
		if err, ok := recover().(error); !ok || !strings.Contains(err.Error(), `limit "10/never"`) {
			t.Errorf("recovered %v", err)
		}
	}()
	sluice.MustParse("10/never")
}

func TestLimitsAsText(t *testing.T) {
	type policy struct {
		Limits map[string]sluice.Limit `json:"limits"`
	}
	const text = `{"limits":{"rpd":"1000/day Europe/Madrid","rpm":"100/minute burst 150"}}`
	var p policy
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if p.Limits["rpm"] != sluice.Per(100, time.Minute).WithBurst(150) {
		t.Errorf("%#v", p)
	}
	if b, err := json.Marshal(p); err != nil || string(b) != text {
		t.Errorf("%s, %v", b, err)
	}
	var fe *sluice.FieldError
	err := json.Unmarshal([]byte(`{"limits":{"rpm":"0/minute"}}`), &p)
	if !errors.As(err, &fe) || fe.Field != "limit.amount" || fe.Value != (sluice.Amount{}) {
		t.Errorf("%v", err)
	}
}

// FuzzParse: nothing panics, errors are short, and what is read is valid and
// reads back the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"100/minute", "10/s burst 20", "1000/24h", "1.5/s", "10k/15min", "1_000/week", "100/minute sliding",
		"100/minute fixed", "1000/day Europe/Madrid", "50000/month UTC", "5 concurrent", "1/1h30m", "7/µs",
		"-1/s", "10/s burst -1", "9/99999999999999999999d", "1.2345/s", "/", "k/s", "10/month",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := sluice.Parse(s)
		if err != nil {
			if len(err.Error()) > 800 { // quoting may make each byte four
				t.Fatalf("an error of %d bytes for %q", len(err.Error()), s)
			}
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("%q was read as %#v: %v", s, l, err)
		}
		again, err := sluice.Parse(l.String())
		if err != nil || again != l {
			t.Fatalf("%q is %q, which is %#v, %v", s, l.String(), again, err)
		}
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &again); err != nil || again != l {
			t.Fatalf("%q is %s, which is %#v, %v", s, b, again, err)
		}
	})
}
