package bucket_test

import (
	"testing"
	"time"
	_ "time/tzdata" // so that every machine tests the same zones

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// zones are those whose clocks have done what clocks can do: changes at
// midnight, a minute after it, by half an hour, over a whole day, twice a
// year around Ramadan, and offsets that are not whole hours.
var zones = []string{
	"UTC",
	"America/Sao_Paulo",    // forward at midnight: days that begin at 01:00
	"Asia/Beirut",          // forward at midnight
	"Africa/Cairo",         // forward at midnight
	"America/Havana",       // forward at midnight, back at 01:00 to midnight
	"America/Asuncion",     // forward and back at midnight
	"Asia/Amman",           // back at 01:00 to midnight
	"Asia/Gaza",            // many different times of the night
	"America/St_Johns",     // back from 00:01 to the day before, until 2011
	"America/Goose_Bay",    // the same
	"America/Scoresbysund", // back from midnight to 23:00
	"Atlantic/Azores",
	"Pacific/Apia",       // no 30 December 2011
	"Pacific/Kiritimati", // no 31 December 1994 (or 1 January 1995)
	"Pacific/Kwajalein",  // no 21 August 1993
	"Europe/Madrid",
	"Europe/Dublin",
	"Africa/Casablanca",   // back for Ramadan
	"Africa/Monrovia",     // an offset in seconds until 1972
	"Australia/Lord_Howe", // half an hour
	"Antarctica/Troll",    // two hours
	"Asia/Kathmandu",      // 5:45
	"Asia/Pyongyang",
	"America/Caracas",
}

func calendar(t testing.TB, unit sluice.Calendar, zone string) *bucket.Spec {
	t.Helper()
	return compile(t, sluice.Limit{
		Algorithm: sluice.FixedWindow, Amount: sluice.Tokens(10), Calendar: unit, Zone: zone,
	})
}

// TestCalendarWindowsCoverTime walks the calendar windows of many zones from
// 1971 to 2040, days around each change of the clock and every month: each
// begins where the last one ended, and every moment of it answers the same
// window.
func TestCalendarWindowsCoverTime(t *testing.T) {
	const day = 24 * time.Hour
	first := time.Date(1971, 1, 1, 12, 0, 0, 0, time.UTC)
	last := time.Date(2040, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, zone := range zones {
		months := calendar(t, sluice.CalendarMonth, zone)
		walk(t, months, zone, first, last, 32*day)

		days := calendar(t, sluice.CalendarDay, zone)
		walk(t, days, zone, first, first.Add(366*day), 25*time.Hour)
		loc, err := sluice.Zone(zone)
		if err != nil {
			t.Fatal(err)
		}
		_, change := first.In(loc).ZoneBounds()
		for !change.IsZero() && change.Before(last) {
			// Two days, where one was skipped or a clock went back for long.
			walk(t, days, zone, change.Add(-3*day), change.Add(3*day), 2*day)
			_, change = change.ZoneBounds()
		}
	}
}

// walk looks at the windows between two times, each at most longest.
func walk(t *testing.T, spec *bucket.Spec, zone string, from, to time.Time, longest time.Duration) {
	t.Helper()
	start, end := spec.Window(from.UnixMicro())
	for start < to.UnixMicro() {
		if start >= end || end-start > longest.Microseconds() {
			t.Fatalf("%s: a window from %s to %s", zone, at(zone, start), at(zone, end))
		}
		for _, now := range []int64{start, start + 30*second, start + 3600*second, (start + end) / 2, end - 30*second, end - 1} {
			if s, e := spec.Window(now); s != start || e != end {
				t.Fatalf("%s: at %s the window is %s to %s, but before it was %s to %s", zone,
					at(zone, now), at(zone, s), at(zone, e), at(zone, start), at(zone, end))
			}
		}
		next, nextEnd := spec.Window(end)
		if next != end {
			t.Fatalf("%s: the window after %s begins at %s", zone, at(zone, end), at(zone, next))
		}
		start, end = next, nextEnd
	}
}

func at(zone string, us int64) string {
	loc, err := sluice.Zone(zone)
	if err != nil {
		return err.Error()
	}
	return time.UnixMicro(us).In(loc).Format("2006-01-02 15:04:05.999999 -0700")
}

// TestCalendarDays looks at the days on which clocks were changed.
func TestCalendarDays(t *testing.T) {
	for _, c := range []struct {
		zone, at   string // a moment of the day, in the zone's time
		start, end string
	}{
		{"UTC", "2030-06-15T12:00:00Z", "2030-06-15T00:00:00Z", "2030-06-16T00:00:00Z"},
		{"Asia/Kathmandu", "2030-06-15T12:00:00+05:45", "2030-06-15T00:00:00+05:45", "2030-06-16T00:00:00+05:45"},
		// 23 and 25 hours
		{"Europe/Madrid", "2024-03-31T12:00:00+02:00", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00"},
		{"Europe/Madrid", "2024-10-27T12:00:00+01:00", "2024-10-27T00:00:00+02:00", "2024-10-28T00:00:00+01:00"},
		// 23½ and 24½ hours
		{"Australia/Lord_Howe", "2024-10-06T12:00:00+11:00", "2024-10-06T00:00:00+10:30", "2024-10-07T00:00:00+11:00"},
		{"Australia/Lord_Howe", "2024-04-07T12:00:00+10:30", "2024-04-07T00:00:00+11:00", "2024-04-08T00:00:00+10:30"},
		// no midnight: the day begins at 01:00
		{"America/Sao_Paulo", "2018-11-04T12:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"Asia/Beirut", "2024-03-31T12:00:00+03:00", "2024-03-31T01:00:00+03:00", "2024-04-01T00:00:00+03:00"},
		{"Africa/Cairo", "2024-04-26T12:00:00+03:00", "2024-04-26T01:00:00+03:00", "2024-04-27T00:00:00+03:00"},
		{"America/Havana", "2024-03-10T12:00:00-04:00", "2024-03-10T01:00:00-04:00", "2024-03-11T00:00:00-04:00"},
		// midnight twice, an hour apart: the first one counts
		{"America/Havana", "2024-11-03T12:00:00-05:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00"},
		// 23:00 to midnight twice: a day of 25 hours
		{"America/Sao_Paulo", "2018-02-17T23:30:00-03:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		// midnight, and a minute later the day before again: it stays the new day
		{"America/St_Johns", "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"America/St_Johns", "2010-11-07T00:00:30-02:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"America/St_Johns", "2010-11-06T23:30:00-02:30", "2010-11-06T00:00:00-02:30", "2010-11-07T00:00:00-02:30"},
		// a day that never was
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"Pacific/Apia", "2011-12-31T12:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
	} {
		spec := calendar(t, sluice.CalendarDay, c.zone)
		now, start, end := micros(t, c.at), micros(t, c.start), micros(t, c.end)
		for _, now := range []int64{now, start, end - 1} {
			if s, e := spec.Window(now); s != start || e != end {
				t.Errorf("%s: %s is in the day from %s to %s, want %s to %s", c.zone,
					at(c.zone, now), at(c.zone, s), at(c.zone, e), c.start, c.end)
			}
		}
	}
}

func TestCalendarMonths(t *testing.T) {
	for _, c := range []struct{ zone, at, start, end string }{
		{"UTC", "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"UTC", "2023-12-31T23:59:59Z", "2023-12-01T00:00:00Z", "2024-01-01T00:00:00Z"},
		{"Europe/Madrid", "2024-03-15T12:00:00+01:00", "2024-03-01T00:00:00+01:00", "2024-04-01T00:00:00+02:00"},
		// put back from 00:01 on the first into the month before
		{"America/St_Johns", "2009-10-31T23:30:00-03:30", "2009-11-01T00:00:00-02:30", "2009-12-01T00:00:00-03:30"},
		{"Pacific/Apia", "2011-12-31T12:00:00+14:00", "2011-12-01T00:00:00-10:00", "2012-01-01T00:00:00+14:00"},
	} {
		spec := calendar(t, sluice.CalendarMonth, c.zone)
		if s, e := spec.Window(micros(t, c.at)); s != micros(t, c.start) || e != micros(t, c.end) {
			t.Errorf("%s: %s is in the month from %s to %s", c.zone, c.at, at(c.zone, s), at(c.zone, e))
		}
	}
}

// TestCalendarQuota: a quota is full again at midnight, there.
func TestCalendarQuota(t *testing.T) {
	p := calendar(t, sluice.CalendarDay, "Europe/Madrid")
	var s bucket.State
	now := micros(t, "2024-10-27T23:00:00+01:00")
	take(p, &s, micros(t, "2024-10-27T00:00:00+02:00"), 10_000)
	v, ok := take(p, &s, now, 1000)
	if in := p.RetryIn(&s, v, 1000); ok || in != time.Hour.Microseconds() {
		t.Errorf("an hour before midnight: %v, retry in %d µs", ok, in)
	}
	if _, ok := take(p, &s, now+time.Hour.Microseconds(), 10_000); !ok {
		t.Error("not full at midnight")
	}
}

func micros(t *testing.T, s string) int64 {
	t.Helper()
	tm, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return tm.UnixMicro()
}
