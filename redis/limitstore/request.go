package limitstore

import (
	"sync"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/combine"
)

// kind is what the script is asked to do.
type kind byte

const (
	plainTakes kind = iota + 16 // no flags of an argument are as much
	fullTake
	adjustment
	settlement
	resetting
	holding
	returning
)

// Flags of an argument and of a demand, as in prelude.lua.
const (
	lastArg     = 1
	simpleArg   = 2
	windowedArg = 4

	shadow       = 1
	countRefused = 2
)

// request is one call of the script under construction.
type request struct {
	keys    []string
	args    []string // without a header
	numbers []byte   // of each argument's key, from 1; twice, with the arguments' own, if joined is true
	joined  bool
	limits  []*compiled

	// exact costs are those of an adjustment, where 0 does not mean a token.
	exact bool

	// numbered arguments end with the numbers of their demands in the take,
	// for the receipt, from which a settlement answers.
	numbered bool

	// order says which demand each of the script's results is of. It is nil
	// if they come as they were asked for, which they do if all demands are
	// of one record.
	order []int

	// acknowledged is how many replicas have it by now, if that is asked for.
	acknowledge  bool
	acknowledged int64

	combine.Ticket // while it is combined with others
	reply          string

	// Room for what most requests need.
	keyRoom    [2]string
	argRoom    [1]string
	numberRoom [1]byte
	limitRoom  [3]*compiled
}

// requests are those done with, to be used again.
var requests = sync.Pool{New: func() any { return &request{} }}

// free gives a request back. Nobody else may know it any more.
func (r *request) free() {
	*r = request{Ticket: r.Again()}
	requests.Put(r)
}

// header starts the first argument: the kind, and the time, which is left to
// the server. More may follow.
func header(k kind) []byte {
	b := make([]byte, 1+8, 64)
	b[0] = byte(k)
	return b
}

// first is the first argument, of what it starts with: the numbers of the
// others' keys follow.
func (r *request) first(start []byte) string {
	return string(append(start, r.numbers...))
}

// firstOfTakes is the first argument of plain takes, for each part the numbers
// of its key and of its argument; "" for one that needs no header.
func (r *request) firstOfTakes() string {
	if len(r.args) == 1 && !r.joined {
		return ""
	}
	if r.joined {
		return r.first(header(plainTakes))
	}
	b := header(plainTakes)
	for i, k := range r.numbers {
		b = append(b, k, byte(i+2))
	}
	return string(b)
}

// add adds demands to r: one argument for each record. The last is marked as
// the end of a take. now is for calendar windows.
func (s *Store) add(r *request, demands []sluice.Demand, now int64) error {
	r.limits = r.limitRoom[:0]
	for i := range demands {
		c, err := s.limits.named(&demands[i].Limit, demands[i].Key.Limit)
		if err != nil {
			return err
		}
		r.limits = append(r.limits, c)
	}
	if len(demands) <= len(indices) && oneRecord(demands) {
		s.addArg(r, demands, indices[:len(demands)], lastArg, now)
		return nil
	}
	groups := byRecord(len(demands), func(i int) *sluice.Key { return &demands[i].Key })
	for n, which := range groups {
		flags := byte(0)
		if n == len(groups)-1 {
			flags = lastArg
		}
		if len(groups) > 1 {
			r.order = append(r.order, which...)
		}
		s.addArg(r, demands, which, flags, now)
	}
	return nil
}

var indices = upTo(16)

// addArg adds the demands numbered in which, all of one record.
func (s *Store) addArg(r *request, demands []sluice.Demand, which []int, flags byte, now int64) {
	var room [512]byte
	set := s.limits.set(r.limits, which)
	flags |= simpleArg
	b := append(room[:0], flags, byte(len(which)))
	for _, i := range which {
		d := &demands[i]
		if d.Limit.Algorithm != sluice.TokenBucket || d.Shadow || d.CountRefused {
			b[0] &^= simpleArg
		}
		b = append(b, demandFlags(d), demandMeta(d))
	}
	b = append(b, set.digest[:]...)
	for _, i := range which {
		b = appendNumber(b, r.cost(&demands[i]))
	}
	if d := &demands[which[0]]; len(which) == 1 && d.Limit.Algorithm == sluice.FixedWindow && d.Limit.Calendar == sluice.NoCalendar && !d.Shadow {
		b[0] |= windowedArg
	}
	b = append(b, set.text...)
	for _, i := range which {
		if c := r.limits[i]; c.calendar() {
			b = c.around(now).appendTo(b)
		}
	}
	if r.numbered {
		for _, i := range which {
			b = append(b, byte(i))
		}
	}
	r.arg(string(b), &demands[which[0]].Key)
}

// arg adds an argument that is about a record.
func (r *request) arg(arg string, k *sluice.Key) {
	if r.args == nil {
		r.args, r.numbers = r.argRoom[:0], r.numberRoom[:0]
	}
	r.args = append(r.args, arg)
	r.numbers = append(r.numbers, r.number(recordKey(k)))
}

// number is that of a key, from 1.
func (r *request) number(key string) byte {
	for i := range r.keys {
		if r.keys[i] == key {
			return byte(i + 1)
		}
	}
	if r.keys == nil {
		r.keys = r.keyRoom[:0]
	}
	r.keys = append(r.keys, key)
	return byte(len(r.keys))
}

func (r *request) cost(d *sluice.Demand) int64 {
	if r.exact {
		return d.Cost.Thousandths()
	}
	return d.Charge().Thousandths()
}

func demandFlags(d *sluice.Demand) (flags byte) {
	if d.Shadow {
		flags |= shadow
	}
	if d.CountRefused {
		flags |= countRefused
	}
	return flags
}

// demandMeta packs what the script only keeps: how the demand is applied by
// others than the store.
func demandMeta(d *sluice.Demand) byte {
	meta := byte(d.Level)<<3 | byte(d.OnUnavailable)<<1
	if d.Critical {
		meta |= 1
	}
	return meta
}

func readMeta(meta byte, d *sluice.Demand) {
	d.Critical = meta&1 != 0
	d.OnUnavailable = sluice.OnUnavailable(meta >> 1 & 3)
	d.Level = sluice.Level(meta >> 3)
}

// demand is the demand that result i is of.
func (r *request) demand(i int) int {
	if r.order == nil {
		return i
	}
	return r.order[i]
}
