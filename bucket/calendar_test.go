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
		Algorithm: sluice.FixedWindow, Amount: 10 * sluice.Token, Calendar: unit, Zone: zone,
	})
}

// TestCalendarWindowsCoverTime walks every calendar window of many zones from
// 1971 to 2040: each begins where the last one ended, and every moment of it
// answers the same window.
func TestCalendarWindowsCoverTime(t *testing.T) {
	first := time.Date(1971, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	last := time.Date(2040, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	for _, zone := range zones {
		for unit, longest := range map[sluice.Calendar]time.Duration{
			sluice.CalendarDay:   50 * time.Hour, // where a day was skipped or an hour repeated
			sluice.CalendarMonth: 32 * 24 * time.Hour,
		} {
			spec := calendar(t, unit, zone)
			start, end := spec.Window(first)
			for start < last {
				if start >= end || end-start > longest.Microseconds() {
					t.Fatalf("%s: a window from %s to %s", zone, at(zone, start), at(zone, end))
				}
				for _, now := range []int64{start, start + 30_000_000, start + 3_600_000_000, (start + end) / 2, end - 30_000_000, end - 1} {
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
	}
}

func at(zone string, us int64) string {
	loc, err := sluice.Zone(zone)
	if err != nil {
		return err.Error()
	}
	return time.UnixMicro(us).In(loc).Format("2006-01-02 15:04:05.999999 -0700")
}
