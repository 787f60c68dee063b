package schedule

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/badinput"
)

// Calendar says when a plan's work may run. It goes by the clock on the wall
// in its zone: where that clock jumps forward, the hour it skips is simply not
// there; where it is set back, an hour that comes twice is open twice.
type Calendar struct {
	// Zone is an IANA time zone. Empty means UTC.
	Zone string `json:"zone,omitempty"`

	// Hours are the opening hours of each weekday, as "09:00-17:30". An
	// interval that ends at or before its start goes on past midnight. A day
	// that is missing is closed; without any Hours every day is open.
	Hours map[string][]string `json:"hours,omitempty"`

	// Holidays are dates in the zone, as "2026-12-25", that are closed from
	// midnight to midnight. Hours that would begin on a holiday and go on past
	// midnight are closed to their end.
	Holidays []string `json:"holidays,omitempty"`

	// Blackouts are closed whatever the hours say.
	Blackouts []Blackout `json:"blackouts,omitempty"`
}

// Blackout is a time in which nothing runs: From is in it, To is not.
type Blackout struct {
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Reason string    `json:"reason,omitempty"`
}

const (
	maxHours     = 24 // intervals a day
	maxHolidays  = 2000
	maxBlackouts = 2000
	maxReason    = 200

	// closedFor is how long a calendar may be closed at a stretch; what opens
	// no sooner is taken for a mistake.
	closedFor = 366 * 24 * time.Hour
)

// Validate says what is wrong with c, or nil.
func (c *Calendar) Validate() error {
	_, err := c.compile()
	return err
}

const day = 24 * 60 * 60 * int64(time.Second/time.Microsecond)

// hours are a calendar made ready for questions. Times are microseconds since
// the epoch; those of a day are microseconds since its midnight, on the wall.
type hours struct {
	zone      *time.Location
	weekly    [7][]span // in order, not overlapping; nil everywhere if always is set
	begun     [7][]span // of weekly, those that begin on the day itself
	always    bool
	holidays  map[int64]bool // days since the epoch, on the wall
	blackouts []span         // in order, not overlapping
}

type span struct{ from, to int64 }

func (c *Calendar) compile() (*hours, error) {
	h := &hours{zone: time.UTC, always: len(c.Hours) == 0}
	if c.Zone != "" {
		zone, err := sluice.Zone(c.Zone)
		if err != nil {
			return nil, badinput.Field("calendar.zone", c.Zone, "must be a time zone such as UTC or Europe/Madrid")
		}
		h.zone = zone
	}
	for name, intervals := range c.Hours {
		weekday, ok := weekdays[name]
		if !ok {
			return nil, badinput.Field("calendar.hours", name, "must be a weekday: monday, tuesday, …")
		}
		if len(intervals) > maxHours {
			return nil, badinput.Field("calendar.hours."+name, len(intervals), fmt.Sprintf("must be at most %d intervals", maxHours))
		}
		for _, text := range intervals {
			s, err := parseHours(text)
			if err != nil {
				return nil, badinput.Field("calendar.hours."+name, text, err.Error())
			}
			h.begun[weekday] = append(h.begun[weekday], span{s.from, min(s.to, day)})
			if s.to > day {
				next := (weekday + 1) % 7
				h.weekly[next] = append(h.weekly[next], span{0, s.to - day})
			}
		}
	}
	for i := range h.weekly {
		h.weekly[i] = merge(append(h.weekly[i], h.begun[i]...))
		h.begun[i] = merge(h.begun[i])
	}
	if err := h.compileClosed(c); err != nil {
		return nil, err
	}
	return h, nil
}

func (h *hours) compileClosed(c *Calendar) error {
	if len(c.Holidays) > maxHolidays {
		return badinput.Field("calendar.holidays", len(c.Holidays), fmt.Sprintf("must be at most %d", maxHolidays))
	}
	h.holidays = make(map[int64]bool, len(c.Holidays))
	for i, text := range c.Holidays {
		date, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return badinput.Field(fmt.Sprintf("calendar.holidays[%d]", i), text, "must be a date such as 2026-12-25")
		}
		h.holidays[floorDiv(date.UnixMicro(), day)] = true
	}
	if len(c.Blackouts) > maxBlackouts {
		return badinput.Field("calendar.blackouts", len(c.Blackouts), fmt.Sprintf("must be at most %d", maxBlackouts))
	}
	for i, b := range c.Blackouts {
		if !b.From.Before(b.To) {
			return badinput.Field(fmt.Sprintf("calendar.blackouts[%d].to", i), b.To, "must be after from")
		}
		if len(b.Reason) > maxReason {
			return badinput.Field(fmt.Sprintf("calendar.blackouts[%d].reason", i), b.Reason, fmt.Sprintf("must be at most %d bytes long", maxReason))
		}
		h.blackouts = append(h.blackouts, span{b.From.UnixMicro(), ceilMicro(b.To)})
	}
	h.blackouts = merge(h.blackouts)
	return nil
}

// merge puts spans in order and joins those that meet.
func merge(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return int(min(max(a.from-b.from, -1), 1)) })
	var out []span
	for _, s := range spans {
		if n := len(out); n > 0 && s.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

var weekdays = map[string]time.Weekday{
	"sunday": time.Sunday, "monday": time.Monday, "tuesday": time.Tuesday, "wednesday": time.Wednesday,
	"thursday": time.Thursday, "friday": time.Friday, "saturday": time.Saturday,
}

var hoursText = regexp.MustCompile(`^([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|(24:00))$`)

// parseHours reads "09:00-17:30". The end may lie past midnight.
func parseHours(s string) (span, error) {
	m := hoursText.FindStringSubmatch(s)
	if m == nil {
		return span{}, errors.New("must be hours such as 09:00-17:30 or 22:00-06:00")
	}
	clock := func(hour, minute string) int64 { // two digits each
		digits := func(s string) int64 { return int64(s[0]-'0')*10 + int64(s[1]-'0') }
		return (digits(hour)*60 + digits(minute)) * int64(time.Minute/time.Microsecond)
	}
	out := span{clock(m[1], m[2]), day}
	if m[5] == "" {
		out.to = clock(m[3], m[4])
	}
	if out.to <= out.from {
		out.to += day
	}
	return out, nil
}
