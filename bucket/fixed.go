package bucket

import (
	"sort"
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
		return p.midnight(y, m, d), p.midnight(y, m, d+1)
	case sluice.CalendarMonth:
		y, m, _ := time.UnixMicro(now).In(p.zone).Date()
		return p.midnight(y, m, 1), p.midnight(y, m+1, 1)
	}
	start = now - floorMod(now, p.period)
	return start, start + p.period
}

// midnight is the first moment at which the zone's date is y-m-d or later:
// where the clock is put forward over midnight, or over a whole day, that is
// the moment of the change.
func (p *Spec) midnight(y int, m time.Month, d int) int64 {
	const day = 24 * time.Hour
	t := time.Date(y, m, d, 0, 0, 0, 0, p.zone)
	from, to := t.ZoneBounds()
	if (from.IsZero() || t.Sub(from) > day) && (to.IsZero() || to.Sub(t) > day) {
		return t.UnixMicro()
	}
	date := time.Date(y, m, d, 0, 0, 0, 0, time.UTC) // normalizes, so that dates can be compared
	low := t.Add(-2 * day)
	n := sort.Search(int(4*day/time.Second), func(i int) bool {
		ly, lm, ld := low.Add(time.Duration(i) * time.Second).Date()
		return !time.Date(ly, lm, ld, 0, 0, 0, 0, time.UTC).Before(date)
	})
	return low.Add(time.Duration(n) * time.Second).UnixMicro()
}

// floorMod is the remainder that is never negative.
func floorMod(a, b int64) int64 {
	if r := a % b; r < 0 {
		return r + b
	} else {
		return r
	}
}
