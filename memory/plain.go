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
	if t.Peek || t.UpTo || t.Within != 0 {
		return false
	}
	switch n := len(t.Demands); {
	case n == 1: // on a smaller stack
		var one [1]plain
		return s.takeBuckets(one[:], t, d)
	case n <= maxPlain:
		var all [maxPlain]plain
		return s.takeBuckets(all[:n], t, d)
	}
	return false
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
	joined := 1 // that have the subject of the first
	for i := range buckets {
		b, dm := &buckets[i], &t.Demands[i]
		if dm.Limit.Algorithm != sluice.TokenBucket || dm.Shadow || dm.CountRefused {
			return false
		}
		if i > 0 && sameSubject(&dm.Key, &t.Demands[i-1].Key) {
			b.subject, b.joins = buckets[i-1].subject, true
			joined++
		} else {
			b.subject = s.hashSubject(&dm.Key)
		}
	}
	now := s.clock.now()
	if joined == len(buckets) {
		mu := &s.shards[shardOf(buckets[0].subject)].mu
		mu.Lock()
		ok := s.decidePlain(buckets, t, d, now)
		mu.Unlock()
		return ok
	}
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
	ok := s.decidePlain(buckets, t, d, now)
	for _, n := range order {
		s.shards[n].mu.Unlock()
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

// decidePlain decides under the locks of all shards.
func (s *Store) decidePlain(buckets []plain, t *sluice.Take, d *sluice.Decision, now int64) bool {
	allowed := true
	var at spot
	var in *table
	var sc *scope
	for i := range buckets {
		b, dm := &buckets[i], &t.Demands[i]
		// Limits that are taken together are mostly in one record, in order.
		if at.index++; !b.joins || at.index >= len(sc.limits) || sc.limits[at.index].name != dm.Key.Limit {
			n := 1
			for j := i + 1; j < len(buckets) && buckets[j].joins; j++ {
				n++
			}
			sh := &s.shards[shardOf(b.subject)]
			if at = s.find(sh, b.subject, &dm.Key, dm.Key.Entity, n, 0); at.offset == 0 {
				return false
			}
			in = &sh.tables[at.class]
			h := in.head(at.offset)
			if h.ext() > 0 {
				return false
			}
			sc = s.scopes.get(h.scope())
		}
		l := &sc.limits[at.index]
		st := in.state(at.offset, at.index)
		if st[wordTime] > now || !sameRate(&l.limit, &dm.Limit) {
			return false
		}
		b.state, b.spec = st, l.spec
		b.used, b.rem = l.spec.Refill(st[wordUsed], st[wordRem], now-st[wordTime])
		allowed = allowed && b.used+int64(dm.Charge()) <= l.spec.Capacity
	}
	if cap(d.Results) < len(buckets) {
		d.Results = make([]sluice.Result, len(buckets))
	}
	d.Results = d.Results[:len(buckets)]
	for i := range buckets {
		b, res := &buckets[i], &d.Results[i]
		cost, wait := int64(t.Demands[i].Charge()), time.Duration(0)
		over := b.used + cost - b.spec.Capacity
		switch {
		case allowed:
			b.used += cost
			st := b.state
			st[wordUsed], st[wordRem], st[wordTime] = b.used, b.rem, now
			st[wordConsumed] = bucket.Saturate(st[wordConsumed] + cost)
		case cost > b.spec.Capacity:
			cost, wait = 0, sluice.Never
		case over > 0:
			cost, wait = 0, time.Duration(b.spec.RepayIn(b.rem, over))*time.Microsecond
		default:
			cost = 0
		}
		res.Fits, res.Held = over <= 0, false
		res.Consumed, res.Remaining = sluice.Tokens(cost), sluice.Tokens(b.spec.Capacity-b.used)
		res.RetryAfter, res.ResetAfter = wait, time.Duration(b.spec.RepayIn(b.rem, b.used))*time.Microsecond
	}
	d.Allowed, d.Demands, d.Time = allowed, t.Demands, time.UnixMicro(now)
	d.ID, d.Source, d.Repeated, d.Delay = t.ID, sluice.FromStore, false, 0
	d.Conclude()
	return true
}
