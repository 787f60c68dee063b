package bucket

import (
	"time"

	"github.com/sluice-go/sluice"
)

// viewFixed rolls to the window that now is in. Holds never outlive their
// window; those that expired within it count as spent.
func (p *Spec) viewFixed(s *State, now int64) View {
	v := View{Now: max(now, s.Time), capacity: p.Capacity}
	v.Time, v.End = p.Window(v.Now)
	if s.Time != v.Time {
		return v
	}
	v.Used = s.Used
	if s.Ext != nil {
		for i := range s.Ext.Holds {
			if h := &s.Ext.Holds[i]; h.Expires > v.Now {
				v.Held += h.Amount
			} else {
				v.Used += h.Amount
			}
		}
	}
	return v
}

// Window is the start and end of the fixed window that now is in.
func (p *Spec) Window(now int64) (start, end int64) {
	switch p.Limit.Calendar {
	case sluice.CalendarDay:
		y, m, d := time.UnixMicro(now).In(p.zone).Date()
		start, end = p.midnight(y, m, d), p.midnight(y, m, d+1)
		if now >= end { // the clock was put back over midnight, into the day before
			start, end = end, p.midnight(y, m, d+2)
		}
		return start, end
	case sluice.CalendarMonth:
		y, m, _ := time.UnixMicro(now).In(p.zone).Date()
		start, end = p.midnight(y, m, 1), p.midnight(y, m+1, 1)
		if now >= end {
			start, end = end, p.midnight(y, m+2, 1)
		}
		return start, end
	}
	start = now - floorMod(now, p.period)
	return start, start + p.period
}

// midnight is the first moment at which the zone's date is y-m-d or later:
// where the clock is put forward over midnight, or over a whole day, that is
// the moment of the change; where it is put back over midnight, the first of
// the two.
func (p *Spec) midnight(y int, m time.Month, d int) int64 {
	date := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	from := date.AddDate(0, 0, -2).In(p.zone) // before it in every zone
	for {
		_, offset := from.Zone()
		t := date.Add(-time.Duration(offset) * time.Second)
		if t.Before(from) {
			return from.UnixMicro() // skipped by the change at from
		}
		_, to := from.ZoneBounds()
		if to.IsZero() || t.Before(to) {
			return t.UnixMicro()
		}
		from = to
	}
}

// floorMod is the remainder that is never negative.
func floorMod(a, b int64) int64 {
	if r := a % b; r < 0 {
		return r + b
	} else {
		return r
	}
}
