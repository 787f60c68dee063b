package sluice

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse parses a limit as people write it:
//
//	100/minute               token bucket, 100 per minute, burst 100
//	10/s burst 20            10 per second, up to 20 at once
//	1000/24h   1.5/s   10k/15min   1_000/week
//	100/minute sliding       never more than 100 in any minute
//	100/minute fixed         aligned windows, as Envoy's service counts
//	1000/day Europe/Madrid   a quota per calendar day
//	50000/month UTC          a quota per calendar month
//	5 concurrent             at most 5 at once
//	unlimited                as much as anyone asks for
func Parse(s string) (Limit, error) {
	l, err := parse(s)
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return Limit{}, fmt.Errorf("limit %.40q: %w", s, err)
	}
	return l, nil
}

// MustParse is like [Parse] but panics if s is not a limit. It is for limits written in code.
func MustParse(s string) Limit {
	l, err := Parse(s)
	if err != nil {
		panic(err)
	}
	return l
}

const unlimited = "unlimited"

const grammar = `want for example "100/minute", "10/s burst 20", "50000/month UTC" or "5 concurrent"`

func parse(s string) (Limit, error) {
	var l Limit
	words := strings.Fields(s)
	if len(words) == 1 && words[0] == unlimited {
		return Unlimited, nil
	}
	if len(s) > 200 || len(words) == 0 || len(words) > 4 {
		return l, fmt.Errorf("%s", grammar)
	}
	if len(words) == 2 && words[1] == "concurrent" {
		n, err := parseTokens(words[0])
		return Limit{Algorithm: Concurrency, Amount: n}, err
	}
	amount, period, ok := strings.Cut(words[0], "/")
	if !ok {
		return l, fmt.Errorf("%s", grammar)
	}
	var err error
	if l.Amount, err = parseTokens(amount); err != nil {
		return l, err
	}
	words = words[1:]
	if err := l.parsePeriod(period, words); err != nil {
		return l, err
	}
	if l.Calendar != NoCalendar {
		return l, nil
	}
	for len(words) > 0 {
		switch {
		case words[0] == "burst" && len(words) > 1 && l.Burst.Thousandths() == 0:
			if l.Burst, err = parseTokens(words[1]); err != nil {
				return l, err
			}
			if l.Burst.Thousandths() <= 0 {
				return l, badField("limit.burst", words[1], "must be above 0; leave it out for a burst of the amount")
			}
			words = words[1:]
		case words[0] == "sliding" && l.Algorithm == TokenBucket:
			l.Algorithm = SlidingWindow
		case words[0] == "fixed" && l.Algorithm == TokenBucket:
			l.Algorithm = FixedWindow
		default:
			return l, fmt.Errorf("unexpected %.40q: %s", words[0], grammar)
		}
		words = words[1:]
	}
	return l, nil
}

// parsePeriod reads what stands after the slash. A calendar unit is a day or
// a month followed by a time zone.
func (l *Limit) parsePeriod(period string, rest []string) error {
	calendar := map[string]Calendar{"day": CalendarDay, "month": CalendarMonth}[period]
	if calendar != NoCalendar && len(rest) == 1 && rest[0] != "sliding" && rest[0] != "fixed" {
		l.Algorithm, l.Calendar, l.Zone = FixedWindow, calendar, rest[0]
		return nil
	}
	if calendar == CalendarMonth {
		return fmt.Errorf(`a month needs a time zone ("50000/month UTC"); write 30d for thirty days`)
	}
	var err error
	l.Period, err = parsePeriod(period)
	return err
}

var units = map[string]time.Duration{
	"us": time.Microsecond, "µs": time.Microsecond, "ms": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour, "weeks": 7 * 24 * time.Hour,
}

// parsePeriod reads "minute", "15min", "24h", "1h30m".
func parsePeriod(s string) (time.Duration, error) {
	var total time.Duration
	for rest := s; ; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n := int64(1)
		if digits > 0 {
			var err error
			if n, err = strconv.ParseInt(rest[:digits], 10, 64); err != nil {
				return 0, fmt.Errorf("period %.40q is out of range", s)
			}
		}
		rest = rest[digits:]
		end := strings.IndexAny(rest, "0123456789")
		if end < 0 {
			end = len(rest)
		}
		unit, ok := units[rest[:end]]
		if !ok {
			return 0, fmt.Errorf("%.40q is not a period: want a unit such as s, minute, h, day or week, with a number before it if it is not one", s)
		}
		if n > int64(maxPeriod/unit) {
			return 0, fmt.Errorf("period %.40q is longer than 5 years", s)
		}
		total += time.Duration(n) * unit
		if rest = rest[end:]; rest == "" {
			return total, nil
		}
	}
}

// parseTokens reads a number of tokens: digits, which may be grouped with _,
// up to three decimals, and k or M for thousands and millions.
func parseTokens(s string) (Amount, error) {
	bad := func(why string) (Amount, error) {
		return Amount{}, fmt.Errorf("%.40q is not an amount: %s", s, why)
	}
	number, scale := s, Token
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 'k':
			number, scale = s[:n-1], scale*1_000
		case 'M':
			number, scale = s[:n-1], scale*1_000_000
		}
	}
	negative := strings.HasPrefix(number, "-")
	number = strings.TrimPrefix(number, "-")
	whole, frac, point := strings.Cut(number, ".")
	if whole == "" || point && frac == "" || strings.HasPrefix(whole, "_") || strings.HasSuffix(whole, "_") {
		return bad("want a number such as 100, 1.5 or 10k")
	}
	var n int64
	for _, c := range whole {
		if c == '_' {
			continue
		}
		if c < '0' || c > '9' {
			return bad("want a number such as 100, 1.5 or 10k")
		}
		if n = n*10 + int64(c-'0'); n > MaxThousandths/scale {
			return bad("it is above " + maxAmount.String())
		}
	}
	total := n * scale
	for _, c := range frac {
		if c < '0' || c > '9' {
			return bad("want a number such as 100, 1.5 or 10k")
		}
		if scale /= 10; scale == 0 {
			return bad("it has more than three decimals")
		}
		total += int64(c-'0') * scale
	}
	if total > MaxThousandths {
		return bad("it is above " + maxAmount.String())
	}
	if negative {
		total = -total
	}
	return Thousandths(total), nil
}

// String returns l in the form that [Parse] reads.
func (l Limit) String() string {
	if l == Unlimited {
		return unlimited
	}
	if l.Algorithm == Concurrency {
		return l.Amount.String() + " concurrent"
	}
	if l.Calendar != NoCalendar {
		return l.Amount.String() + "/" + name(l.Calendar, "", "day", "month") + " " + l.Zone
	}
	s := l.Amount.String() + "/" + periodString(l.Period)
	switch {
	case l.Algorithm == SlidingWindow:
		s += " sliding"
	case l.Algorithm == FixedWindow:
		s += " fixed"
	case l.Burst.Thousandths() != 0:
		s += " burst " + l.Burst.String()
	}
	return s
}

// periodString writes the largest unit that divides d, and spells it out if
// it is one.
func periodString(d time.Duration) string {
	for _, u := range [...]struct {
		unit        time.Duration
		short, long string
	}{
		{24 * time.Hour, "d", "day"}, {time.Hour, "h", "hour"}, {time.Minute, "m", "minute"},
		{time.Second, "s", "s"}, {time.Millisecond, "ms", "ms"}, {time.Microsecond, "us", "us"},
	} {
		if d == u.unit {
			return u.long
		}
		if d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.short
		}
	}
	return d.String()
}

// MarshalText writes l as [Limit.String] does.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what [Parse] reads.
func (l *Limit) UnmarshalText(b []byte) (err error) {
	*l, err = Parse(string(b))
	return err
}
