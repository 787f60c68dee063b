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
	var b plain
	var ok, allowed bool
	var now int64
	subject := s.hashSubject(&dm.Key)
	shard := shardOf(subject)
	if s.hints[0][shard].hot.Load() {
		h := &s.hots[shard]
		now = s.clock.now()
		h.lock()
		if l := h.limit(&dm.Key); l != nil {
			ok, allowed, now = s.consumeOne(&b, &h.state, l, dm, now)
		}
		h.mu.Unlock()
	}
	if !ok {
		address := s.prefetch(subject, &dm.Key, 1)
		sh := &s.shards[shard]
		now = s.clock.now()
		contended := !sh.mu.TryLock()
		if contended {
			sh.mu.Lock()
		}
		if sh.hot {
			s.cool(shard)
		}
		if at := s.find(sh, subject, address, &dm.Key, dm.Key.Entity, 1, 0); at.offset > 0 {
			record := sh.tables[at.class].slot(at.offset)
			h := (*head)(record)
			sc := s.scopes.get(h.scope())
			if h.ext() == 0 {
				ok, allowed, now = s.consumeOne(&b, (*state)(record[4+4*at.index:]), &sc.limits[at.index], dm, now)
			}
			if ok && contended {
				s.heat(shard, at, sc)
			}
		}
		sh.mu.Unlock()
	}
	if !ok {
		return false
	}
	if cap(d.Results) == 0 {
		d.Results = make([]sluice.Result, 1)
	}
	d.Results = d.Results[:1]
	tell(&d.Results[0], b.spec, b.used, b.rem, dm.Charge().Thousandths(), allowed)
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

// view refills a bucket up to now. It reports false if the demand changes the
// limit or the bucket's time is ahead of the clock.
func (b *plain) view(st *state, l *scopeLimit, dm *sluice.Demand, now int64) bool {
	if st[wordTime] > now || !sameRate(&l.limit, &dm.Limit) {
		return false
	}
	b.state, b.spec = st, l.spec
	b.used, b.rem = l.spec.Refill(st[wordUsed], st[wordRem], now-st[wordTime])
	return true
}

// fits reports whether there is room for a cost.
func (b *plain) fits(cost int64) bool { return b.used+cost <= b.spec.Capacity }

// take consumes a cost. A full bucket starts again, as if it had been forgotten.
func (b *plain) take(cost, now int64) {
	st := b.state
	if b.used == 0 {
		st[wordConsumed] = 0
	}
	st[wordConsumed] = bucket.Saturate(st[wordConsumed] + cost)
	st[wordUsed], st[wordRem], st[wordTime] = b.used+cost, b.rem, now
}

// consumeOne is consume for a single demand, of the bucket with this state.
func (s *Store) consumeOne(b *plain, st *state, l *scopeLimit, dm *sluice.Demand, now int64) (ok, allowed bool, at int64) {
	if st[wordTime] > now { // somebody who came later had the lock before
		now = s.clock.now()
	}
	if !b.view(st, l, dm, now) {
		return false, false, now
	}
	cost := dm.Charge().Thousandths()
	if allowed = b.fits(cost); allowed {
		b.take(cost, now)
	}
	return true, allowed, now
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
		sh := s.lockShard(shardOf(subject))
		ok, allowed, now = s.consume(buckets, t.Demands, now)
		sh.mu.Unlock()
	} else {
		var shards [maxPlain]uint32
		for i := range buckets {
			shards[i] = shardOf(buckets[i].subject)
		}
		order := shards[:len(buckets)]
		slices.Sort(order)
		order = slices.Compact(order)
		for _, n := range order {
			s.lockShard(n)
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
		st := (*state)(record[4+4*index:])
		if st[wordTime] > now { // somebody who came later had the lock before
			if now = s.clock.now(); st[wordTime] <= now {
				return s.consume(buckets, demands, now)
			}
		}
		if !b.view(st, &sc.limits[index], dm, now) {
			return false, false, now
		}
		allowed = allowed && b.fits(dm.Charge().Thousandths())
	}
	if allowed {
		for i := range buckets {
			buckets[i].take(demands[i].Charge().Thousandths(), now)
		}
	}
	return true, allowed, now
}

// answer tells what was decided. It needs no lock.
func answer(buckets []plain, allowed bool, now int64, t *sluice.Take, d *sluice.Decision) {
	if cap(d.Results) < len(buckets) {
		d.Results = make([]sluice.Result, len(buckets))
	}
	d.Results = d.Results[:len(buckets)]
	for i := range buckets {
		b := &buckets[i]
		tell(&d.Results[i], b.spec, b.used, b.rem, t.Demands[i].Charge().Thousandths(), allowed)
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
	left := (spec.Capacity - used)
	res.Fits, res.Held, res.Unknown = over <= 0, false, false
	res.Consumed, res.Returned, res.Remaining, res.Free = sluice.Thousandths(cost), sluice.Amount{}, sluice.Thousandths(left), sluice.Thousandths(left)
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
