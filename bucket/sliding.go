package bucket

// A sliding window of length W counts in parts of W/k, numbered from the
// epoch. At any time it counts the part now is in and the k before it, the
// oldest of them in full though it may have partly left the window. Any
// window of length W lies within k+1 parts, so what they add up to is an
// upper bound for it; and k+1 parts reach back at most W×(1+1/k).
const (
	parts = SubWindows
	ring  = parts + 1
)

// part is the number of the part that t is in. W/k need not be a whole number
// of microseconds: part i covers the times from i×W/k to below (i+1)×W/k.
func (p *Spec) part(t int64) int64 {
	rest := floorMod(t, p.period)
	return (t-rest)/p.period*parts + rest*parts/p.period
}

// partStart is the first microsecond of part i.
func (p *Spec) partStart(i int64) int64 {
	rest := floorMod(i, parts)
	return (i-rest)/parts*p.period + (rest*p.period+parts-1)/parts
}

func (p *Spec) viewSliding(s *State, now int64) View {
	v := View{Now: now, Time: p.part(now), capacity: p.Capacity}
	if s.Ext == nil || s.Ext.Counts == nil {
		return v
	}
	if v.Time < s.Time { // the clock went back
		v.Time, v.Now = s.Time, p.partStart(s.Time)
	}
	if v.Time == s.Time {
		v.Used = s.Used
		return v
	}
	for i := max(v.Time-parts, s.Time-parts); i <= s.Time; i++ {
		v.Used += s.Ext.Counts[floorMod(i, ring)]
	}
	return v
}

func (p *Spec) commitSliding(s *State, v View) {
	if s.Ext == nil {
		s.Ext = &Ext{}
	}
	if s.Ext.Counts == nil {
		s.Ext.Counts = make([]int64, ring)
		return
	}
	for i := s.Time + 1; i <= min(v.Time, s.Time+ring); i++ {
		s.Ext.Counts[floorMod(i, ring)] = 0
	}
}

func (p *Spec) untilSliding(s *State, v View, target int64) int64 {
	used := v.Used
	for i := v.Time - parts; ; i++ { // ends at v.Time at the latest, when nothing is used
		if i <= s.Time {
			used -= s.Ext.Counts[floorMod(i, ring)]
		}
		if used <= target {
			return p.partStart(i+ring) - v.Now
		}
	}
}

// refundSliding takes amount out of the newest counts. Which counts it comes
// from does not matter for the bound: any window that holds the take holds
// the refund too, or ended before it.
func refundSliding(s *State, v View, amount int64) {
	for i := v.Time; amount > 0; i-- {
		c := &s.Ext.Counts[floorMod(i, ring)]
		n := min(amount, *c)
		*c -= n
		amount -= n
	}
}
