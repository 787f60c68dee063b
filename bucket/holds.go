package bucket

import (
	"slices"
	"sort"

	"github.com/sluice-go/sluice"
)

// MaxHolds is how many holds one bucket may have at once.
const MaxHolds = 256

// Holdable reports whether tokens of this limit can be held in advance.
func (p *Spec) Holdable() bool {
	return p.Limit.Algorithm == sluice.TokenBucket || p.Limit.Algorithm == sluice.FixedWindow
}

// Recalled reports whether somebody waits for tokens at v, so that none are
// granted: a caller in line, or one whose take was refused for what is held.
func (s *State) Recalled(v View) bool { return v.Tickets > 0 || s.Ext != nil && s.Ext.Recalled > v.Now }

// Grantable is how much of at most most, and not less than least, can be held
// at v.
func (p *Spec) Grantable(s *State, v View, least, most int64) int64 {
	n := min(most, v.Available())
	if !p.Holdable() || n <= 0 || n < least || s.Recalled(v) {
		return 0
	}
	if s.Ext != nil && len(s.Ext.Holds) >= MaxHolds && s.Ext.Holds[len(s.Ext.Holds)-MaxHolds].Expires > v.Now {
		return 0
	}
	return n
}

// HoldableIn is in how many microseconds at least least could be held if
// nothing else happens, or [Never].
func (p *Spec) HoldableIn(s *State, v View, least int64) int64 {
	if !p.Holdable() {
		return Never
	}
	wait := p.retryIn(s, v, least)
	if s.Recalled(v) {
		wait = max(wait, s.Ext.Recalled-v.Now, v.ticketsEnd-v.Now)
	}
	if s.Ext != nil && len(s.Ext.Holds) >= MaxHolds {
		wait = max(wait, s.Ext.Holds[0].Expires-v.Now)
	}
	return v.later(wait)
}

// Hold moves amount from the bucket to a node. The hold ends with its fixed
// window at the latest; its end is the answer.
func (p *Spec) Hold(s *State, v View, h Hold) (expires int64) {
	if p.Limit.Algorithm == sluice.FixedWindow {
		h.Expires = min(h.Expires, v.End)
	}
	p.commit(s, v)
	if s.Ext == nil {
		s.Ext = &Ext{}
	}
	at := sort.Search(len(s.Ext.Holds), func(i int) bool { return s.Ext.Holds[i].Expires > h.Expires })
	s.Ext.Holds = slices.Insert(s.Ext.Holds, at, h)
	return h.Expires
}

// Return closes a hold of which spent was used; the rest is free again. An
// expired or unknown hold is ignored: it already counts as spent.
func (p *Spec) Return(s *State, v View, id sluice.HoldID, spent int64) bool {
	if s.Ext == nil || p.Limit.Algorithm == sluice.FixedWindow && s.Time != v.Time {
		return false
	}
	held := func(h Hold) bool { return h.ID == id && h.Expires > v.Now }
	if !slices.ContainsFunc(s.Ext.Holds, held) {
		return false
	}
	p.commit(s, v)
	i := slices.IndexFunc(s.Ext.Holds, held)
	spent = min(max(spent, 0), s.Ext.Holds[i].Amount)
	s.Ext.Holds = slices.Delete(s.Ext.Holds, i, i+1)
	s.Used += spent
	s.Consumed = Saturate(s.Consumed + spent)
	s.dropExt(p)
	return true
}

// ForHeld reports whether cost does not fit only because of what is held and
// of who is before in line.
func (v *View) ForHeld(cost int64) bool {
	return cost > v.Available() && cost <= v.Remaining()
}

// Recall marks the bucket after a refusal of cost that would have passed if
// nothing were held, and reports whether it was one. Nothing is granted until
// the take could have passed; of several, the one that has to wait longest.
// It changes nothing else.
func (p *Spec) Recall(s *State, v View, cost int64) bool {
	if v.Held == 0 || !v.ForHeld(cost) {
		return false
	}
	until := v.Now + p.retryIn(s, v, cost)
	if s.Ext.Recalled > v.Now {
		until, cost = max(until, s.Ext.Recalled), max(cost, s.Ext.RecallCost)
	}
	s.Ext.Recalled, s.Ext.RecallCost = until, cost
	return true
}

// commitHolds drops the holds that have expired; v already counts them, but
// for Consumed.
func (p *Spec) commitHolds(s *State, v View) {
	sameWindow := p.Limit.Algorithm != sluice.FixedWindow || s.Time == v.Time
	s.Ext.Holds = slices.DeleteFunc(s.Ext.Holds, func(h Hold) bool {
		gone := h.Expires <= v.Now || !sameWindow
		if gone {
			s.Consumed = Saturate(s.Consumed + h.Amount)
		}
		return gone
	})
}

// ConsumedBy is the net consumption at v: what s counts, and the holds that have
// expired since s was written.
func (p *Spec) ConsumedBy(s *State, v View) int64 {
	n := s.Consumed
	if s.Ext != nil {
		n -= v.Held
		for i := range s.Ext.Holds {
			n += s.Ext.Holds[i].Amount
		}
	}
	return Saturate(n)
}
