package bucket

import (
	"slices"
	"sort"
)

// viewFlights counts the leases that have not expired. Flights are kept in
// order of expiry.
func (p *Spec) viewFlights(s *State, now int64) View {
	now = max(now, s.Time)
	v := View{Now: now, Used: s.Used, Time: now, capacity: p.Capacity}
	if s.Ext == nil {
		return v
	}
	for i := range s.Ext.Flights {
		if s.Ext.Flights[i].Expires > now {
			break
		}
		v.Used -= s.Ext.Flights[i].Cost
	}
	return v
}

func commitFlights(s *State, v View) {
	if s.Ext == nil {
		s.Ext = &Ext{}
		return
	}
	gone := sort.Search(len(s.Ext.Flights), func(i int) bool { return s.Ext.Flights[i].Expires > v.Now })
	s.Ext.Flights = slices.Delete(s.Ext.Flights, 0, gone)
}

func untilFlights(s *State, v View, target int64) int64 {
	used := v.Used
	for i := range s.Ext.Flights {
		f := &s.Ext.Flights[i]
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
func (p *Spec) Board(s *State, v View, f Flight) {
	p.commit(s, v)
	s.Used += f.Cost
	s.Consumed = Saturate(s.Consumed + f.Cost)
	insertFlight(s.Ext, f)
}

// Alight takes a lease out again and answers its cost: 0 if it is not there
// or has expired.
func (p *Spec) Alight(s *State, v View, id string) int64 {
	if s.Ext == nil {
		return 0
	}
	i := slices.IndexFunc(s.Ext.Flights, func(f Flight) bool { return f.ID == id && f.Expires > v.Now })
	if i < 0 {
		return 0
	}
	cost := s.Ext.Flights[i].Cost
	s.Ext.Flights = slices.Delete(s.Ext.Flights, i, i+1)
	v.Used -= cost
	p.commit(s, v)
	return cost
}

// Extend moves a lease's expiry, if it is still there.
func (p *Spec) Extend(s *State, v View, id string, expires int64) {
	if cost := p.Alight(s, v, id); cost > 0 {
		s.Used += cost
		insertFlight(s.Ext, Flight{ID: id, Cost: cost, Expires: expires})
	}
}

func insertFlight(x *Ext, f Flight) {
	at := sort.Search(len(x.Flights), func(i int) bool { return x.Flights[i].Expires > f.Expires })
	x.Flights = slices.Insert(x.Flights, at, f)
}
