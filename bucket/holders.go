package bucket

import (
	"slices"
	"sort"
)

// viewHolders counts the leases that have not expired. Holders are kept in
// order of expiry.
func (p *Spec) viewHolders(s *State, now int64) View {
	now = max(now, s.Time)
	v := View{Now: now, Used: s.Used, Time: now, capacity: p.Capacity}
	if s.Ext == nil {
		return v
	}
	for i := range s.Ext.Holders {
		if s.Ext.Holders[i].Expires > now {
			break
		}
		v.Used -= s.Ext.Holders[i].Cost
	}
	return v
}

func commitHolders(s *State, v View) {
	if s.Ext == nil {
		s.Ext = &Ext{}
		return
	}
	gone := sort.Search(len(s.Ext.Holders), func(i int) bool { return s.Ext.Holders[i].Expires > v.Now })
	s.Ext.Holders = slices.Delete(s.Ext.Holders, 0, gone)
}

func untilHolders(s *State, v View, target int64) int64 {
	used := v.Used
	for i := range s.Ext.Holders {
		f := &s.Ext.Holders[i]
		if f.Expires <= v.Now {
			continue
		}
		if used -= f.Cost; used <= target {
			return f.Expires - v.Now
		}
	}
	return 0
}

// Board puts a lease into a concurrency limit, unconditionally.
func (p *Spec) Board(s *State, v View, f Holder) {
	p.commit(s, v)
	s.Used += f.Cost
	s.Consumed = Saturate(s.Consumed + f.Cost)
	insertHolder(s.Ext, f)
}

// Alight takes a lease out again and answers its cost: 0 if it is not there
// or has expired.
func (p *Spec) Alight(s *State, v View, id string) int64 {
	if s.Ext == nil {
		return 0
	}
	i := slices.IndexFunc(s.Ext.Holders, func(f Holder) bool { return f.ID == id && f.Expires > v.Now })
	if i < 0 {
		return 0
	}
	cost := s.Ext.Holders[i].Cost
	s.Ext.Holders = slices.Delete(s.Ext.Holders, i, i+1)
	v.Used -= cost
	p.commit(s, v)
	return cost
}

// Extend moves a lease's expiry, if it is still there.
func (p *Spec) Extend(s *State, v View, id string, expires int64) {
	if cost := p.Alight(s, v, id); cost > 0 {
		s.Used += cost
		insertHolder(s.Ext, Holder{ID: id, Cost: cost, Expires: expires})
	}
}

func insertHolder(x *Ext, f Holder) {
	at := sort.Search(len(x.Holders), func(i int) bool { return x.Holders[i].Expires > f.Expires })
	x.Holders = slices.Insert(x.Holders, at, f)
}
