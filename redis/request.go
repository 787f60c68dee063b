package redis

import (
	"github.com/sluice-go/sluice"
)

// kind is what the script is asked to do.
type kind byte

const (
	plainTakes kind = iota
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
	args    []string // without the first
	numbers []byte   // of each argument's key, from 1
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

	// Room for what most requests need.
	keyRoom    [2]string
	argRoom    [1]string
	numberRoom [1]byte
	limitRoom  [3]*compiled
}

// header starts the first argument: the time, which is left to the server, and
// the kind. More may follow.
func header(k kind) []byte {
	return append(make([]byte, 8, 64), byte(k))
}

// oneTake is the first argument of the commonest call.
var oneTake = string([]byte{0, 0, 0, 0, 0, 0, 0, 0, byte(plainTakes), 1})

// first is the first argument, of what it starts with: the numbers of the
// others' keys follow.
func (r *request) first(start []byte) string {
	return string(append(start, r.numbers...))
}

// add adds demands to r: one argument for each record. The last is marked as
// the end of a take. now is for calendar windows.
func (s *Store) add(r *request, demands []sluice.Demand, now int64) error {
	r.limits = r.limitRoom[:0]
	for i := range demands {
		c, err := s.limits.get(demands[i].Limit)
		if err != nil {
			return err
		}
		r.limits = append(r.limits, c)
	}
	if len(demands) == 1 {
		r.addArg(demands, only, lastArg, now)
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
		r.addArg(demands, which, flags, now)
	}
	return nil
}

var only = []int{0}

// addArg adds the demands numbered in which, all of one record.
func (r *request) addArg(demands []sluice.Demand, which []int, flags byte, now int64) {
	var room [256]byte
	flags |= simpleArg
	b := append(room[:0], flags, byte(len(which)))
	for _, i := range which {
		d := &demands[i]
		if d.Limit.Algorithm != sluice.TokenBucket || d.Shadow || d.CountRefused {
			b[0] &^= simpleArg
		}
		b = append(b, demandFlags(d), demandMeta(d))
		b = appendNumber(b, r.cost(d))
	}
	if d := &demands[which[0]]; len(which) == 1 && d.Limit.Algorithm == sluice.FixedWindow && d.Limit.Calendar == sluice.NoCalendar && !d.Shadow {
		b[0] |= windowedArg
	}
	for _, i := range which {
		limit, name := r.limits[i].limit, demands[i].Key.Limit
		b = append(b, byte(len(limit)), byte(len(name)))
		b = append(b, limit...)
		b = append(b, name...)
	}
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
		return int64(d.Cost)
	}
	return int64(d.Charge())
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
