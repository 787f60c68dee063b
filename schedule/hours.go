package schedule

import (
	"sort"
	"time"
)

// at says whether t is open, and until when that certainly stays so.
func (h *hours) at(t int64) (open bool, until int64) {
	moment := time.UnixMicro(t).In(h.zone)
	_, offset := moment.Zone()
	shift := int64(offset) * int64(time.Second/time.Microsecond)
	wall := t + shift
	date := floorDiv(wall, day)
	clock := wall - date*day
	until = day // on the clock of this date
	switch {
	case h.holidays[date]:
	case h.always:
		open = true
	default:
		weekday := (date + int64(time.Thursday)) % 7 // the epoch was a Thursday
		spans := h.weekly[weekday]
		if h.holidays[date-1] {
			spans = h.begun[weekday]
		}
		for _, s := range spans {
			if clock < s.from {
				until = s.from
				break
			}
			if clock < s.to {
				open, until = true, s.to
				break
			}
		}
	}
	until += date*day - shift
	// As long as the zone's offset is the same, the clock runs evenly.
	if _, end := moment.ZoneBounds(); !end.IsZero() {
		until = min(until, end.UnixMicro())
	}
	i := sort.Search(len(h.blackouts), func(i int) bool { return h.blackouts[i].to > t })
	if i < len(h.blackouts) {
		if b := h.blackouts[i]; b.from <= t {
			return false, b.to
		} else if open {
			until = min(until, b.from)
		}
	}
	return open, until
}

// next is the first open moment at or after t, and until when it certainly
// stays open; midnight may end a stretch though the next one follows at once.
// It answers false if nothing opens for a year.
func (h *hours) next(t int64) (opens, closes int64, ok bool) {
	if h == nil {
		return t, forever, true
	}
	for last := t + closedFor.Microseconds(); t < last; {
		open, until := h.at(t)
		if open {
			return t, until, true
		}
		t = until
	}
	return 0, 0, false
}

// open reports whether t is open.
func (h *hours) open(t time.Time) bool {
	opens, _, ok := h.next(t.UnixMicro())
	return ok && opens == t.UnixMicro()
}

// forever is past every moment that can be scheduled, and far from overflow.
const forever = int64(1) << 60

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

// ceilMicro is t in microseconds, rounded up: never before t.
func ceilMicro(t time.Time) int64 {
	us := t.UnixMicro()
	if time.UnixMicro(us).Before(t) {
		us++
	}
	return us
}
