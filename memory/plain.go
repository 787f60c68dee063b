package memory

import (
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// maxPlain is how many demands the short way is for.
const maxPlain = 4

// takePlain is the short way for the takes that are nearly all there are:
// plain demands on token buckets that exist and that nobody holds tokens of.
// It decides as the long way does, without looking at what such takes cannot
// have. It reports false, having done nothing, for any other take.
func (s *Store) takePlain(t *sluice.Take, d *sluice.Decision) bool {
	if t.Peek || t.UpTo || t.Ticket.ID.Node != 0 {
		return false
	}
	switch n := len(t.Demands); {
	case n == 1:
		return s.takeOne(t, d)
	case n <= maxPlain:
		var all [maxPlain]plain
		return s.takeBuckets(all[:n], t, d)
	}
	return false
}

// takeOne is takeBuckets for a single demand, which most takes have.
func (s *Store) takeOne(t *sluice.Take, d *sluice.Decision) bool {
	dm := &t.Demands[0]
	if dm.Limit.Algorithm != sluice.TokenBucket || dm.Shadow || dm.CountRefused {
		return false
	}
	subject := s.hashSubject(&dm.Key)
	address := s.prefetch(subject, &dm.Key, 1)
	now, cost := s.clock.now(), int64(dm.Charge())
	sh := &s.shards[shardOf(subject)]
	sh.mu.Lock()
	at := s.find(sh, subject, address, &dm.Key, dm.Key.Entity, 1, 0)
	if at.offset == 0 {
		sh.mu.Unlock()
		return false
	}
	record := sh.tables[at.class].slot(at.offset)
	h := (*head)(record)
	l := &s.scopes.get(h.scope()).limits[at.index]
	st := (*state)(record[4+4*at.index:])
	if st[wordTime] > now { // somebody who came later had the lock before
		now = s.clock.now()
	}
	if h.ext() > 0 || st[wordTime] > now || !sameRate(&l.limit, &dm.Limit) {
		sh.mu.Unlock()
		return false
	}
	used, rem := l.spec.Refill(st[wordUsed], st[wordRem], now-st[wordTime])
	allowed := used+cost <= l.spec.Capacity
	if allowed {
		st[wordConsumed] = consumed(st, used, cost)
		st[wordUsed], st[wordRem], st[wordTime] = used+cost, rem, now
	}
	spec := l.spec
	sh.mu.Unlock()
	if cap(d.Results) == 0 {
		d.Results = make([]sluice.Result, 1)
	}
	d.Results = d.Results[:1]
	tell(&d.Results[0], spec, used, rem, cost, allowed)
	conclude(t, d, allowed, now)
	return true
}

// plain is one demand's bucket on the short way.
type plain struct {
	state     *state
	spec      *bucket.Spec
	used, rem int64
	subject   uint64 // its hash
	joins     bool   // it has the subject of the one before
}

func (s *Store) takeBuckets(buckets []plain, t *sluice.Take, d *sluice.Decision) bool {
	key := &t.Demands[0].Key
	subject := s.hashSubject(key)
	s.prefetch(subject, key, len(buckets))
	joined := 1 // that have the subject of the first
	for i := range buckets {
		b, dm := &buckets[i], &t.Demands[i]
		if dm.Limit.Algorithm != sluice.TokenBucket || dm.Shadow || dm.CountRefused {
			return false
		}
		if i > 0 {
			if b.joins = sameSubject(&dm.Key, &t.Demands[i-1].Key); b.joins {
				joined++
			} else {
				subject = s.hashSubject(&dm.Key)
				s.prefetch(subject, &dm.Key, len(buckets)-i)
			}
		}
		b.subject = subject
	}
	var ok, allowed bool
	now := s.clock.now()
	if joined == len(buckets) {
		mu := &s.shards[shardOf(subject)].mu
		mu.Lock()
		ok, allowed, now = s.consume(buckets, t.Demands, now)
		mu.Unlock()
	} else {
		var shards [maxPlain]uint32
		for i := range buckets {
			shards[i] = shardOf(buckets[i].subject)
		}
		order := shards[:len(buckets)]
		slices.Sort(order)
		order = slices.Compact(order)
		for _, n := range order {
			s.shards[n].mu.Lock()
		}
		ok, allowed, now = s.consume(buckets, t.Demands, now)
		for _, n := range order {
			s.shards[n].mu.Unlock()
		}
	}
	if ok {
		answer(buckets, allowed, now, t, d)
	}
	return ok
}

func sameSubject(a, b *sluice.Key) bool {
	return a.Entity == b.Entity && same(a.Resource, b.Resource) && same(a.Namespace, b.Namespace)
}

// sameRate compares the limit of a bucket with one that says it is a token
// bucket, too.
func sameRate(a, b *sluice.Limit) bool {
	return a.Amount == b.Amount && a.Period == b.Period && a.Burst == b.Burst && a.Algorithm == sluice.TokenBucket &&
		b.Calendar == sluice.NoCalendar && b.Zone == ""
}

// consume decides under the locks of all shards, and takes what is allowed.
// It reports whether it could, and as of when.
func (s *Store) consume(buckets []plain, demands []sluice.Demand, now int64) (ok, allowed bool, at int64) {
	allowed = true
	var index int
	var record []int64
	var sc *scope
	for i := range buckets {
		b, dm := &buckets[i], &demands[i]
		// Limits that are taken together are mostly in one record, in order.
		if index++; !b.joins || index >= len(sc.limits) || sc.limits[index].name != dm.Key.Limit {
			n := 1
			for j := i + 1; j < len(buckets) && buckets[j].joins; j++ {
				n++
			}
			sh := &s.shards[shardOf(b.subject)]
			address := s.address(groupClass(n), b.subject, &dm.Key)
			found := s.find(sh, b.subject, address, &dm.Key, dm.Key.Entity, n, 0)
			if found.offset == 0 {
				return false, false, now
			}
			index, record = found.index, sh.tables[found.class].slot(found.offset)
			h := (*head)(record)
			if h.ext() > 0 {
				return false, false, now
			}
			sc = s.scopes.get(h.scope())
		}
		l := &sc.limits[index]
		st := (*state)(record[4+4*index:])
		if st[wordTime] > now { // somebody who came later had the lock before
			if now = s.clock.now(); st[wordTime] <= now {
				return s.consume(buckets, demands, now)
			}
			return false, false, now
		}
		if !sameRate(&l.limit, &dm.Limit) {
			return false, false, now
		}
		b.state, b.spec = st, l.spec
		b.used, b.rem = l.spec.Refill(st[wordUsed], st[wordRem], now-st[wordTime])
		allowed = allowed && b.used+int64(dm.Charge()) <= l.spec.Capacity
	}
	if !allowed {
		return true, false, now
	}
	for i := range buckets {
		b, cost := &buckets[i], int64(demands[i].Charge())
		st := b.state
		st[wordConsumed] = consumed(st, b.used, cost)
		st[wordUsed], st[wordRem], st[wordTime] = b.used+cost, b.rem, now
	}
	return true, true, now
}

// consumed is what a bucket has consumed after cost, where used was used before:
// a full one starts again, as if it had been forgotten.
func consumed(st *state, used, cost int64) int64 {
	if used == 0 {
		return cost
	}
	return bucket.Saturate(st[wordConsumed] + cost)
}

// answer tells what was decided. It needs no lock.
func answer(buckets []plain, allowed bool, now int64, t *sluice.Take, d *sluice.Decision) {
	if cap(d.Results) < len(buckets) {
		d.Results = make([]sluice.Result, len(buckets))
	}
	d.Results = d.Results[:len(buckets)]
	for i := range buckets {
		b := &buckets[i]
		tell(&d.Results[i], b.spec, b.used, b.rem, int64(t.Demands[i].Charge()), allowed)
	}
	conclude(t, d, allowed, now)
}

// tell is what a bucket answers to a cost, of which it had used so much before.
func tell(res *sluice.Result, spec *bucket.Spec, used, rem, cost int64, allowed bool) {
	over, wait := used+cost-spec.Capacity, time.Duration(0)
	switch {
	case allowed:
		used += cost
	case cost > spec.Capacity:
		cost, wait = 0, sluice.Never
	case over > 0:
		cost, wait = 0, time.Duration(spec.RepayIn(rem, over))*time.Microsecond
	default:
		cost = 0
	}
	left := sluice.Tokens(spec.Capacity - used)
	res.Fits, res.Held, res.Unknown = over <= 0, false, false
	res.Consumed, res.Returned, res.Remaining, res.Free = sluice.Tokens(cost), 0, left, left
	res.RetryAfter, res.LatestAfter = wait, wait
	res.ResetAfter = time.Duration(spec.RepayIn(rem, used)) * time.Microsecond
}

// conclude tells what the results come to.
func conclude(t *sluice.Take, d *sluice.Decision, allowed bool, now int64) {
	d.Allowed, d.Demands, d.Time = allowed, t.Demands, time.UnixMicro(now)
	d.ID, d.Source, d.Repeated = t.ID, sluice.FromStore, false
	if !d.Taken.IsZero() {
		d.Taken = time.Time{}
	}
	d.Conclude()
}
