package limitstore

import (
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// batch is the requests of one call. For takes it has them as arguments: the
// buckets, each once and in order, the limits, each once, and the demands,
// which refer to both by their numbers. Numbers start at 1, as in SQL.
type batch struct {
	requests []*request
	hashes   []uint64 // of what is under way with them
	departed time.Time
	failed   bool // the database did not answer it

	keys   keyArgs
	limits limitArgs
	places []int32 // of each demand
	rules  []int32 // of each demand
	costs  []int64 // of each demand
	sizes  []int32 // of each take

	flat  []*rowKey // of each demand
	order []int32   // the demands, by key
}

func (b *batch) clear() {
	clear(b.requests)
	clear(b.flat)
	b.requests, b.hashes, b.failed = b.requests[:0], b.hashes[:0], false
}

// add adds a request, unless there is no room or it has to be in another call:
// one that goes to another function, or has the id of one that is here, whose
// outcome it is to see.
func (b *batch) add(r *request) bool {
	if n := len(b.requests); n > 0 {
		if b.requests[0].kind != r.kind || n >= maxTakes || len(b.hashes)+len(r.hashes) > maxDemands {
			return false
		}
		if r.bounds != nil || b.requests[0].bounds != nil { // which go with one lease alone
			return false
		}
		if r.id != "" && slices.ContainsFunc(b.requests, func(o *request) bool { return o.id == r.id }) {
			return false
		}
	}
	b.requests = append(b.requests, r)
	b.hashes = append(b.hashes, r.hashes...)
	return true
}

// depart marks what is under way.
func (b *batch) depart(busy map[uint64]int) {
	for _, h := range b.hashes {
		busy[h]++
	}
}

// number fills in the arguments of takes.
func (b *batch) number() {
	b.keys.clear()
	b.limits.clear()
	b.sizes, b.costs, b.rules = b.sizes[:0], b.costs[:0], b.rules[:0]
	b.order, b.flat = b.order[:0], b.flat[:0]
	for _, r := range b.requests {
		b.sizes = append(b.sizes, int32(len(r.keys)))
		for i := range r.keys {
			b.order = append(b.order, int32(len(b.flat)))
			b.flat = append(b.flat, &r.keys[i])
			b.rules = append(b.rules, b.limits.number(&r.take.Demands[i].Limit))
			b.costs = append(b.costs, r.take.Demands[i].Cost.Thousandths())
		}
	}
	b.places = b.keys.number(b.places, b.flat, b.order)
}

// glance reports whether there is probably nothing to write.
func (b *batch) glance(m *marks) bool {
	return !slices.ContainsFunc(b.requests, func(r *request) bool { return !r.idle(m) })
}

// fail answers all with an error.
func (b *batch) fail(err error) {
	b.failed = true
	for _, r := range b.requests {
		r.answer(err)
	}
}

// keyArgs are buckets as arguments.
type keyArgs struct {
	namespaces, entities, resources, names []string
}

func (a *keyArgs) clear() {
	a.namespaces, a.entities, a.resources, a.names = a.namespaces[:0], a.entities[:0], a.resources[:0], a.names[:0]
}

// number adds keys, in order and each once, and answers the number of each.
// order has their indexes.
func (a *keyArgs) number(places []int32, keys []*rowKey, order []int32) []int32 {
	slices.SortFunc(order, func(i, j int32) int { return keys[i].compare(keys[j]) })
	places = slices.Grow(places[:0], len(keys))[:len(keys)]
	var last *rowKey
	for _, i := range order {
		if k := keys[i]; last == nil || *k != *last {
			a.namespaces = append(a.namespaces, k.namespace)
			a.entities = append(a.entities, k.entity)
			a.resources = append(a.resources, k.resource)
			a.names = append(a.names, k.limit)
			last = k
		}
		places[i] = int32(len(a.names))
	}
	return places
}

// keyArgsOf numbers the keys of a call that is not a batch.
func keyArgsOf[T any](items []T, key func(*T) *sluice.Key) (args keyArgs, places []int32) {
	keys, order := make([]*rowKey, len(items)), make([]int32, len(items))
	for i := range items {
		k := rowKeyOf(key(&items[i]))
		keys[i], order[i] = &k, int32(i)
	}
	return args, args.number(nil, keys, order)
}

// limitArgs are limits as arguments.
type limitArgs struct {
	limits                   []sluice.Limit
	algorithms, calendars    []int16
	amounts, periods, bursts []int64
	zones                    []string
	bounds                   []int64 // see bound
	rates, pers, capacities  []int64 // see reduce
}

func (a *limitArgs) clear() {
	*a = limitArgs{
		limits: a.limits[:0], algorithms: a.algorithms[:0], calendars: a.calendars[:0],
		amounts: a.amounts[:0], periods: a.periods[:0], bursts: a.bursts[:0],
		zones: a.zones[:0], bounds: a.bounds[:0],
		rates: a.rates[:0], pers: a.pers[:0], capacities: a.capacities[:0],
	}
}

// reduce fills in what the arithmetic of token buckets and fixed windows needs.
func (a *limitArgs) reduce() {
	for i := range a.limits {
		l := &a.limits[i]
		rate, per := l.Amount.Thousandths(), l.Period.Microseconds()
		if l.Algorithm == sluice.TokenBucket {
			rate, per = l.Rate()
		}
		a.rates, a.pers, a.capacities = append(a.rates, rate), append(a.pers, per), append(a.capacities, l.Capacity().Thousandths())
	}
}

// number adds l, unless it is there, and answers its number. Batches have few
// different limits.
func (a *limitArgs) number(l *sluice.Limit) int32 {
	for i := range a.limits {
		if a.limits[i] == *l {
			return int32(i + 1)
		}
	}
	a.limits = append(a.limits, *l)
	a.algorithms = append(a.algorithms, int16(l.Algorithm))
	a.calendars = append(a.calendars, int16(l.Calendar))
	a.amounts = append(a.amounts, l.Amount.Thousandths())
	a.periods = append(a.periods, l.Period.Microseconds())
	a.bursts = append(a.bursts, l.Burst.Thousandths())
	a.zones = append(a.zones, l.Zone)
	return int32(len(a.limits))
}

// limitArgsOf checks and numbers the limits of a call that is not a batch.
func limitArgsOf[T any](s *Store, items []T, limit func(*T) *sluice.Limit) (*limitArgs, error) {
	a := &limitArgs{}
	for i := range items {
		l := limit(&items[i])
		if _, err := s.specs.compile(l); err != nil {
			return nil, err
		}
		a.number(l)
	}
	return a, nil
}
