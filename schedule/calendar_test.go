package schedule

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

func mustCompile(t *testing.T, c *Calendar) *hours {
	t.Helper()
	h, err := c.compile()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// wallOpen says by the clock on the wall whether t is open: the definition.
func wallOpen(c *Calendar, zone *time.Location, t time.Time) bool {
	for _, b := range c.Blackouts {
		if !t.Before(b.From) && t.Before(b.To) {
			return false
		}
	}
	local := t.In(zone)
	holiday := func(t time.Time) bool { return slices.Contains(c.Holidays, t.Format(time.DateOnly)) }
	if holiday(local) {
		return false
	}
	if len(c.Hours) == 0 {
		return true
	}
	clock := local.Format("15:04")
	before := local.AddDate(0, 0, -1)
	yesterday := strings.ToLower(before.Weekday().String())
	for _, s := range c.Hours[strings.ToLower(local.Weekday().String())] {
		from, to, _ := strings.Cut(s, "-")
		if clock >= from && (clock < to || to <= from) {
			return true
		}
	}
	for _, s := range c.Hours[yesterday] {
		from, to, _ := strings.Cut(s, "-")
		if to <= from && clock < to && !holiday(before) {
			return true
		}
	}
	return false
}

// TestCalendarAgainstTheWall compares weeks around changes of
// the clock, five minutes at a time, in zones that change it at different hours,
// with the definition.
func TestCalendarAgainstTheWall(t *testing.T) {
	for _, zone := range []string{"Europe/Madrid", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Cairo", "UTC"} {
		c := &Calendar{
			Zone: zone,
			Hours: map[string][]string{
				"monday": {"09:00-12:30", "13:15-17:00"}, "tuesday": {"22:00-06:00"}, "friday": {"00:00-24:00"},
				"saturday": {"23:30-03:30"}, "sunday": {"01:15-02:45", "12:00-13:00", "21:00-00:00"},
			},
			Holidays: []string{"2026-03-30", "2026-03-31", "2026-10-24", "2026-10-26"},
		}
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, around := range []string{"2026-03-08", "2026-03-29", "2026-04-05", "2026-04-24", "2026-10-04", "2026-10-25", "2026-10-29", "2026-11-01"} {
			start, err := time.Parse(time.DateOnly, around)
			if err != nil {
				t.Fatal(err)
			}
			c.Blackouts = []Blackout{{From: start.Add(70 * time.Hour), To: start.Add(75*time.Hour + 20*time.Minute)}}
			h := mustCompile(t, c)
			for m := start.Add(-72 * time.Hour); m.Before(start.Add(96 * time.Hour)); m = m.Add(5 * time.Minute) {
				if got, want := first(h.at(m.UnixMicro())), wallOpen(c, loc, m); got != want {
					t.Fatalf("%s in %s: open is %t, want %t", m.In(loc), zone, got, want)
				}
			}
			// The next opening is the first open minute.
			for range 20 {
				from := start.Add(time.Duration(rand.IntN(4*24*60)) * time.Minute)
				want := from
				for !wallOpen(c, loc, want) {
					want = want.Add(time.Minute)
				}
				opens, closes, ok := h.next(from.UnixMicro())
				if !ok || opens != want.UnixMicro() {
					t.Fatalf("%s: after %s it opens %s, want %s", zone, from.In(loc), time.UnixMicro(opens).In(loc), want.In(loc))
				}
				if !wallOpen(c, loc, time.UnixMicro(closes-1)) {
					t.Fatalf("%s: open until %s, but not before it", zone, time.UnixMicro(closes).In(loc))
				}
			}
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

// TestMissingAndDoubledHour tells it for one zone in so many words.
func TestMissingAndDoubledHour(t *testing.T) {
	h := mustCompile(t, &Calendar{Zone: "Europe/Madrid", Hours: map[string][]string{"sunday": {"02:00-03:00"}}})
	utc := func(s string) int64 {
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMicro()
	}
	total := func(from, to int64) (open time.Duration) {
		for at := from; at < to; {
			is, until := h.at(at)
			until = min(until, to)
			if is {
				open += time.Duration(until-at) * time.Microsecond
			}
			at = until
		}
		return open
	}
	for _, c := range []struct {
		day  string
		want time.Duration
	}{
		{"2026-03-22", time.Hour},     // as always
		{"2026-03-29", 0},             // 02:00 is followed by 03:00 at once
		{"2026-10-25", 2 * time.Hour}, // the hour from 02:00 comes twice
	} {
		if got := total(utc(c.day+"T00:00:00Z"), utc(c.day+"T12:00:00Z")); got != c.want {
			t.Errorf("%s is open for %s, want %s", c.day, got, c.want)
		}
	}
	// Whoever asks in the missing hour gets the next Sunday's.
	if opens, _, _ := h.next(utc("2026-03-29T00:59:00Z")); opens != utc("2026-04-05T00:00:00Z") {
		t.Errorf("opens %s", time.UnixMicro(opens).UTC())
	}
	// Between the two halves of the doubled hour it stays open.
	if opens, _, _ := h.next(utc("2026-10-25T01:00:00Z")); opens != utc("2026-10-25T01:00:00Z") {
		t.Errorf("opens %s", time.UnixMicro(opens).UTC())
	}
}

func TestCalendarMistakesAreNamed(t *testing.T) {
	for want, c := range map[string]Calendar{
		"calendar.zone":                {Zone: "Mars/Olympus"},
		"calendar.hours":               {Hours: map[string][]string{"someday": nil}},
		"calendar.hours.monday":        {Hours: map[string][]string{"monday": {"9-17"}}},
		"calendar.hours.friday":        {Hours: map[string][]string{"friday": {"09:00-24:30"}}},
		"calendar.hours.sunday":        {Hours: map[string][]string{"sunday": {"09:60-10:00"}}},
		"calendar.holidays[1]":         {Holidays: []string{"2026-01-01", "2026-02-30"}},
		"calendar.blackouts[0].to":     {Blackouts: []Blackout{{From: time.Unix(5, 0), To: time.Unix(5, 0)}}},
		"calendar.blackouts[0].reason": {Blackouts: []Blackout{{From: time.Unix(5, 0), To: time.Unix(6, 0), Reason: strings.Repeat("x", 201)}}},
	} {
		var field *sluice.FieldError
		if err := c.Validate(); !errors.As(err, &field) || field.Field != want {
			t.Errorf("got %v, want a mistake in %s", err, want)
		}
	}
}

func FuzzParseHours(f *testing.F) {
	for _, s := range []string{"09:00-17:30", "22:00-06:00", "00:00-24:00", "x", "+1:00-02:00", "09:00-09:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseHours(s)
		if err != nil {
			return
		}
		if got.from < 0 || got.from >= day || got.to <= got.from || got.to > got.from+day {
			t.Errorf("%q is %v", s, got)
		}
		minutes := func(us int64) string {
			m := us / 60_000_000
			return fmt.Sprintf("%02d:%02d", m/60, m%60)
		}
		if to := got.to % day; s != minutes(got.from)+"-"+minutes(to) && s != minutes(got.from)+"-24:00" {
			t.Errorf("%q was read as %s to %s", s, minutes(got.from), minutes(got.to))
		}
	})
}
