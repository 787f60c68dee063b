package sluice

import (
	"fmt"
	"math/bits"
	"time"
)

// Algorithm is how a limit counts.
type Algorithm uint8

const (
	// TokenBucket refills Amount per Period, evenly, up to Burst. The default.
	TokenBucket Algorithm = iota
	// SlidingWindow allows Amount in any window of length Period. It counts
	// in 32 parts, the partly expired one in full.
	SlidingWindow
	// FixedWindow allows Amount in each window of length Period, aligned to
	// the Unix epoch, or in each calendar unit. Around a boundary, up to twice
	// the amount passes in a short time, as with any fixed window.
	FixedWindow
	// Concurrency allows Amount in flight at once; it needs a lease.
	Concurrency
)

func (a Algorithm) String() string {
	switch a {
	case TokenBucket:
		return "token bucket"
	case SlidingWindow:
		return "sliding window"
	case FixedWindow:
		return "fixed window"
	case Concurrency:
		return "concurrency"
	}
	return fmt.Sprintf("algorithm %d", uint8(a))
}

// Calendar is a unit of the calendar that a fixed window can follow.
type Calendar uint8

const (
	// NoCalendar leaves the window's length to Period.
	NoCalendar Calendar = iota
	// CalendarDay starts a window at each midnight of the zone.
	CalendarDay
	// CalendarMonth starts a window at midnight on the first of each month.
	CalendarMonth
)

// Limit is the rule of one limit. [Parse] reads one as people write it;
// the zero Limit is not valid. Limits are values and can be compared.
type Limit struct {
	Algorithm Algorithm

	// Amount comes back per Period, or may be used per window, or may be in
	// flight at once.
	Amount Amount

	// Period is the time that Amount is for: any whole number of microseconds.
	// Concurrency and calendar windows do not use it.
	Period time.Duration

	// Burst is how many tokens a full bucket has. 0 means Amount. Only token
	// buckets have one.
	Burst Amount

	// Calendar and Zone make a fixed window follow the calendar of an IANA
	// time zone.
	Calendar Calendar
	Zone     string
}

// Unlimited is a limit that refuses nothing. It is written "unlimited".
var Unlimited = Limit{Amount: Thousandths(MaxThousandths), Period: time.Microsecond}

// Per returns a token bucket of n whole tokens per period: Per(100, time.Minute).
func Per(n int64, period time.Duration) Limit {
	return Limit{Amount: Tokens(n), Period: period}
}

// WithBurst returns l with room for n whole tokens.
func (l Limit) WithBurst(n int64) Limit {
	l.Burst = Tokens(n)
	return l
}

// Capacity returns the most that can be taken at once. A larger cost never passes.
func (l Limit) Capacity() Amount {
	if l.Algorithm == TokenBucket && l.Burst.Thousandths() != 0 {
		return l.Burst
	}
	return l.Amount
}

const (
	maxPeriod      = 5 * 366 * 24 * time.Hour
	minSliding     = 16 * time.Microsecond // so that the numbers of its parts are exact, too
	maxConcurrency = 100_000 * Token
	exact          = 1 << 53 // the range in which every store's integers are exact
)

// Validate returns an error if l is not a usable limit.
func (l Limit) Validate() error {
	if l.Algorithm > Concurrency {
		return badField("limit.algorithm", l.Algorithm, "must be token bucket, sliding window, fixed window or concurrency")
	}
	if l.Amount.Thousandths() <= 0 || l.Amount.Thousandths() > MaxThousandths {
		return badField("limit.amount", l.Amount, fmt.Sprintf("must be above 0 and at most %s", maxAmount))
	}
	if l.Burst.Thousandths() < 0 || l.Burst.Thousandths() > MaxThousandths {
		return badField("limit.burst", l.Burst, fmt.Sprintf("must be between 0 (the amount) and %s", maxAmount))
	}
	if l.Burst.Thousandths() != 0 && l.Algorithm != TokenBucket {
		return badField("limit.burst", l.Burst, fmt.Sprintf("only a token bucket has a burst, not a %s", l.Algorithm))
	}
	if err := l.validateCalendar(); err != nil {
		return err
	}
	if l.Algorithm == Concurrency || l.Calendar != NoCalendar {
		if l.Period != 0 {
			return badField("limit.period", l.Period, fmt.Sprintf("a %s with this setting has no period; leave it 0", l.Algorithm))
		}
		if l.Algorithm == Concurrency && (l.Amount.Thousandths() > maxConcurrency || l.Amount.Thousandths()%Token != 0) {
			return badField("limit.amount", l.Amount, "concurrency must be a whole number of at most 100000")
		}
		return nil
	}
	if l.Period < time.Microsecond || l.Period > maxPeriod || l.Period%time.Microsecond != 0 {
		return badField("limit.period", l.Period, "must be a whole number of microseconds, from 1µs to 5 years")
	}
	if l.Algorithm == SlidingWindow && l.Period < minSliding {
		return badField("limit.period", l.Period, "a sliding window must be at least 16µs long")
	}
	if amount, period := l.Rate(); l.Algorithm == TokenBucket {
		if hi, lo := bits.Mul64(uint64(amount)+1, uint64(period)); hi != 0 || lo >= exact {
			return badField("limit.amount", fmt.Sprintf("%s/%s", l.Amount, l.Period),
				"cannot be kept exactly: choose a rounder amount or a shorter period")
		}
	}
	return nil
}

func (l Limit) validateCalendar() error {
	if l.Calendar > CalendarMonth {
		return badField("limit.calendar", uint8(l.Calendar), "must be none, day or month")
	}
	if l.Calendar == NoCalendar {
		if l.Zone != "" {
			return badField("limit.zone", l.Zone, "a time zone goes with a calendar day or month")
		}
		return nil
	}
	if l.Algorithm != FixedWindow {
		return badField("limit.calendar", l.Algorithm, "only a fixed window follows the calendar")
	}
	if _, err := Zone(l.Zone); err != nil {
		return badField("limit.zone", l.Zone, "must be a time zone such as UTC or Europe/Madrid")
	}
	return nil
}

// Rate returns the refill in lowest terms: amount in millitokens per period in
// microseconds. It is meaningless for limits without a period.
func (l Limit) Rate() (amount, period int64) {
	amount, period = l.Amount.Thousandths(), l.Period.Microseconds()
	a, b := amount, period
	for b != 0 {
		a, b = b, a%b
	}
	if a == 0 {
		return amount, period
	}
	return amount / a, period / a
}
