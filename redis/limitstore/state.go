package limitstore

import (
	"encoding/binary"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// version is the first byte of all that the script keeps, except for records in
// which somebody waits.
const (
	version = 1
	waiting = 2
)

// stored is a bucket as a record has it.
type stored struct {
	name  string
	limit sluice.Limit
	state bucket.State
}

// readRecord reads what prelude.lua describes and the script writes.
func readRecord(raw string) ([]stored, error) {
	if raw == "" {
		return nil, nil
	}
	if raw[0] != version && raw[0] != waiting {
		return nil, &recordError{version: raw[0]}
	}
	rest := scanner{s: raw[1:]}
	rest.text(16) // until when it lives, the digest
	all := make([]stored, rest.small())
	rest.small() // the status
	for i := range all {
		s := &all[i].state
		s.Used, s.Rem, s.Time, s.Consumed = rest.number(), rest.number(), rest.number(), rest.number()
	}
	ok := rest.limits(len(all), func(i int, limit sluice.Limit, name string) {
		all[i].limit, all[i].name = limit, name
	})
	if !ok {
		return nil, &recordError{version: raw[0]}
	}
	for i := range all {
		if all[i].limit.Algorithm == sluice.FixedWindow {
			all[i].state.Rem = 0 // it is where the window ends
		}
	}
	for i := range all {
		if len(rest.s) == 0 && raw[0] == version {
			break
		}
		all[i].readRest(rest.text(rest.length()))
		if raw[0] == waiting {
			all[i].readTickets(rest.text(rest.length()))
		}
	}
	if rest.short || len(rest.s) > 0 {
		return nil, &recordError{version: raw[0]}
	}
	return all, nil
}

// entrySize is the length of a hold and of a holder.
const entrySize = 32

// readRest reads what only some algorithms keep.
func (b *stored) readRest(text string) {
	if text == "" {
		return
	}
	s, rest, x := &b.state, scanner{s: text}, &bucket.Ext{}
	s.Ext = x
	switch b.limit.Algorithm {
	case sluice.SlidingWindow:
		x.Counts = make([]int64, bucket.SubWindows+1)
		for len(rest.s) > 0 {
			part := s.Time - int64(rest.small())
			x.Counts[((part%int64(len(x.Counts)))+int64(len(x.Counts)))%int64(len(x.Counts))] = rest.number()
		}
	case sluice.Concurrency:
		for len(rest.s) >= entrySize {
			id := rest.text(16)
			x.Holders = append(x.Holders, bucket.Holder{ID: id, Cost: rest.number(), Expires: rest.number()})
		}
	default:
		x.Recalled, x.RecallCost = rest.number(), rest.number()
		for len(rest.s) >= entrySize {
			id := readHoldID(rest.text(16))
			x.Holds = append(x.Holds, bucket.Hold{ID: id, Amount: rest.number(), Expires: rest.number()})
		}
	}
}

// ticketSize is the length of a ticket.
const ticketSize = 40

func (b *stored) readTickets(text string) {
	rest := scanner{s: text}
	if text != "" && b.state.Ext == nil {
		b.state.Ext = &bucket.Ext{}
	}
	for len(rest.s) >= ticketSize {
		id := readHoldID(rest.text(16))
		b.state.Ext.Tickets = append(b.state.Ext.Tickets, bucket.Ticket{
			ID: id, Rank: rest.number(), Cost: rest.number(), Expires: rest.number(),
		})
	}
}

func readHoldID(s string) sluice.HoldID {
	id := []byte(s)
	return sluice.HoldID{Node: binary.BigEndian.Uint64(id), Seq: binary.BigEndian.Uint64(id[8:])}
}
