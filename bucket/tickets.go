package bucket

import (
	"cmp"
	"slices"

	"github.com/sluice-go/sluice"
)

// MaxTickets is how many tickets one bucket may have at once.
const MaxTickets = 256

// Ticket is the place in line of a caller that waits, as a bucket keeps it:
// see [sluice.Ticket].
type Ticket struct {
	ID      sluice.HoldID
	Rank    int64 // the lowest is served first
	Cost    int64
	Expires int64
}

// order compares places in line.
func (t *Ticket) order(o *Ticket) int {
	return cmp.Or(cmp.Compare(t.Rank, o.Rank), cmp.Compare(t.ID.Node, o.ID.Node), cmp.Compare(t.ID.Seq, o.ID.Seq))
}

// stand counts the tickets that are before one in line, or all of them if it
// is nil. What they want counts as used for whoever comes after them. Who of
// one node is first, the node itself decides.
func (s *State) stand(v *View, mine *Ticket) {
	v.Ahead, v.Tickets, v.aheadEnds, v.ticketsEnd = 0, 0, 0, 0
	if s.Ext == nil {
		return
	}
	for i := range s.Ext.Tickets {
		t := &s.Ext.Tickets[i]
		if t.Expires <= v.Now {
			continue
		}
		v.Tickets++
		v.ticketsEnd = max(v.ticketsEnd, t.Expires)
		if mine != nil && (t.ID.Node == mine.ID.Node || t.order(mine) >= 0) {
			continue
		}
		v.Ahead = min(v.Ahead+t.Cost, sluice.MaxThousandths)
		if v.aheadEnds == 0 || t.Expires < v.aheadEnds {
			v.aheadEnds = t.Expires
		}
	}
}

// Stand makes v what a caller with a ticket sees, to whom only those count
// who are before it. It answers the ticket with its rank: the one it has in
// the bucket if it stands there already, or else v.Now plus rank.
func (p *Spec) Stand(s *State, v *View, id sluice.HoldID, rank int64) Ticket {
	mine := Ticket{ID: id, Rank: v.Now + rank}
	if i := s.ticket(*v, id); i >= 0 {
		mine.Rank = s.Ext.Tickets[i].Rank
	}
	s.stand(v, &mine)
	return mine
}

// ticket is where a ticket that has not expired stands in the state, or -1.
func (s *State) ticket(v View, id sluice.HoldID) int {
	if s.Ext == nil {
		return -1
	}
	return slices.IndexFunc(s.Ext.Tickets, func(t Ticket) bool { return t.ID == id && t.Expires > v.Now })
}

// Queue puts a ticket into the bucket, in the place of the one of its node if
// there is one, and reports whether there was room for it. It changes nothing
// else.
func (p *Spec) Queue(s *State, v View, t Ticket) bool {
	if s.Ext != nil {
		s.Ext.Tickets = slices.DeleteFunc(s.Ext.Tickets, func(o Ticket) bool { return o.ID.Node == t.ID.Node || o.Expires <= v.Now })
	}
	if s.Ext == nil {
		s.Ext = &Ext{}
	}
	if len(s.Ext.Tickets) >= MaxTickets {
		return false
	}
	at, _ := slices.BinarySearchFunc(s.Ext.Tickets, &t, func(a Ticket, b *Ticket) int { return a.order(b) })
	s.Ext.Tickets = slices.Insert(s.Ext.Tickets, at, t)
	return true
}

// Leave takes a ticket out of the bucket, and reports whether it was there.
func (p *Spec) Leave(s *State, v View, id sluice.HoldID) bool {
	there := s.ticket(v, id) >= 0
	if there {
		s.removeTicket(v, id)
		s.dropExt(p)
	}
	return there
}

// removeTicket removes that of an id, and those that have expired.
func (s *State) removeTicket(v View, id sluice.HoldID) {
	if s.Ext != nil {
		s.Ext.Tickets = slices.DeleteFunc(s.Ext.Tickets, func(t Ticket) bool { return t.ID == id || t.Expires <= v.Now })
	}
}

// dropExt lets go of an Ext that has nothing in it, so that the bucket is a
// plain one again.
func (s *State) dropExt(p *Spec) {
	x := s.Ext
	if x != nil && p.Holdable() && len(x.Holds)+len(x.Tickets) == 0 && x.Recalled == 0 {
		s.Ext = nil
	}
}
