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
	if len(t.Demands) > maxPlain || t.Peek || t.UpTo || t.Within != 0 {
		return false
	}
	var all [maxPlain]plain
	buckets := all[:len(t.Demands)]
	oneShard := true
	for i := range buckets {
		b, dm := &buckets[i], &t.Demands[i]
		if dm.Limit.Algorithm != sluice.TokenBucket || dm.Shadow || dm.CountRefused {
			return false
		}
		if i > 0 && sameSubject(&dm.Key, &t.Demands[i-1].Key) {
			b.subject, b.joins = buckets[i-1].subject, true
		} else {
			b.subject = s.hashSubject(&dm.Key)
		}
		b.shard = shardOf(b.subject)
		oneShard = oneShard && b.shard == buckets[0].shard
	}
	now := s.clock.now()
	if oneShard {
		mu := &s.shards[buckets[0].shard].mu
		mu.Lock()
		ok := s.decidePlain(buckets, t, d, now)
		mu.Unlock()
		return ok
	}
	var shards [maxPlain]uint32
	for i := range buckets {
		shards[i] = buckets[i].shard
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

// plain is one demand's bucket on the short way.
type plain struct {
	record    *record
	spec      *bucket.Spec
	used, rem int64
	subject   uint64 // its hash
	shard     uint32
	joins     bool // it has the subject of the one before
}

func sameSubject(a, b *sluice.Key) bool {
	return a.Entity == b.Entity && a.Resource == b.Resource && a.Namespace == b.Namespace
}

// decidePlain decides under the locks of all shards.
func (s *Store) decidePlain(buckets []plain, t *sluice.Take, d *sluice.Decision, now int64) bool {
	allowed := true
	at := 0
	for i := range buckets {
		b, dm := &buckets[i], &t.Demands[i]
		sh := &s.shards[b.shard]
		// Limits that are taken together were mostly inserted together, so
		// the next one's record is often right behind.
		if at++; !b.joins || !sh.isAt(at, &s.scopes, &dm.Key) {
			at = sh.find(&s.scopes, s.place(b.subject, &dm.Key), &dm.Key, dm.Key.Entity)
		}
		if at == 0 {
			return false
		}
		r := sh.at(at)
		sc := s.scopes.get(r.scope())
		if r.hasExt() || r[wordTime] > now || sc.limit != dm.Limit {
			return false
		}
		b.record, b.spec = r, sc.spec
		b.used, b.rem = b.spec.Refill(r[wordUsed], r[wordRem], now-r[wordTime])
		allowed = allowed && b.used+int64(dm.Charge()) <= b.spec.Capacity
	}
	if cap(d.Results) < len(buckets) {
		d.Results = make([]sluice.Result, len(buckets))
	}
	d.Results = d.Results[:len(buckets)]
	for i := range buckets {
		b, res := &buckets[i], &d.Results[i]
		cost := int64(t.Demands[i].Charge())
		*res = sluice.Result{Fits: b.used+cost <= b.spec.Capacity}
		switch {
		case allowed:
			b.used += cost
			r := b.record
			r[wordUsed], r[wordRem], r[wordTime] = b.used, b.rem, now
			r[wordConsumed] = bucket.Saturate(r[wordConsumed] + cost)
			res.Consumed = sluice.Tokens(cost)
		case !res.Fits && cost > b.spec.Capacity:
			res.RetryAfter = sluice.Never
		case !res.Fits:
			res.RetryAfter = time.Duration(b.spec.RepayIn(b.rem, b.used+cost-b.spec.Capacity)) * time.Microsecond
		}
		res.Remaining = sluice.Tokens(b.spec.Capacity - b.used)
		res.ResetAfter = time.Duration(b.spec.RepayIn(b.rem, b.used)) * time.Microsecond
	}
	d.Allowed, d.Demands, d.Time = allowed, t.Demands, time.UnixMicro(now)
	d.ID, d.Source, d.Repeated, d.Delay = t.ID, sluice.FromStore, false, 0
	d.Conclude()
	return true
}
