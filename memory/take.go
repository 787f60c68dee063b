package memory

import (
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Take decides t.
func (s *Store) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if t.ID != "" && !t.Peek {
		return s.takeOnce(t, d)
	}
	return s.take(t, d, nil)
}

// take decides t; if it has an effect, r gets what a repetition or a
// settlement needs to know.
func (s *Store) take(t *sluice.Take, d *sluice.Decision, r *receipt) error {
	// The places live on the stack; most takes have few demands.
	switch n := len(t.Demands); {
	case n == 1:
		var places [1]place
		return s.takeFrom(places[:], t, d, r)
	case n <= 4:
		var places [4]place
		return s.takeFrom(places[:n], t, d, r)
	default:
		return s.takeFrom(make([]place, n), t, d, r)
	}
}

func (s *Store) takeFrom(places []place, t *sluice.Take, d *sluice.Decision, r *receipt) error {
	for i := range places {
		places[i].name(s, &t.Demands[i].Key)
	}
	now := s.clock.now()
	if err := s.enter(places, t.Demands, now); err != nil {
		return err
	}
	defer s.exit(places)

	d.Demands, d.ID, d.Source, d.Repeated, d.Delay = t.Demands, t.ID, sluice.FromStore, false, 0
	d.Time = time.UnixMicro(now)
	d.Results = slices.Grow(d.Results[:0], len(places))[:len(places)]
	grant := decide(places, t, d)
	for i := range places {
		p, dm, res := &places[i], &t.Demands[i], &d.Results[i]
		var cost int64
		switch {
		case t.Peek:
		case d.Allowed && (res.Fits || !dm.Shadow):
			cost = p.cost(dm, grant)
		case !d.Allowed && dm.CountRefused && dm.Limit.Algorithm != sluice.Concurrency:
			cost = p.cost(dm, 0)
		}
		if cost > 0 {
			if dm.Limit.Algorithm == sluice.Concurrency {
				expires := now + (d.Delay + t.Keep).Microseconds()
				p.spec.Board(&p.state, p.view, bucket.Flight{ID: t.ID, Cost: cost, Expires: expires})
				p.view.Used += cost
			} else {
				cost = p.spec.Take(&p.state, p.view, cost)
				p.view.Used += cost
			}
			p.changed = true
		} else if !d.Allowed && !t.Peek && !res.Fits && !dm.Shadow && p.spec.Recall(&p.state, p.view, p.cost(dm, 0)) {
			p.changed = true
		}
		res.Consumed = sluice.Tokens(cost)
		res.Remaining = sluice.Tokens(p.view.Available())
		res.ResetAfter = time.Duration(p.spec.ResetIn(&p.state, p.view)) * time.Microsecond
	}
	d.Conclude()
	if r != nil {
		r.record(t, d, now)
	}
	return nil
}

// decide fills in whether each demand fits and when it could, and whether the
// take is allowed. For a take up to an amount it answers the grant.
func decide(places []place, t *sluice.Take, d *sluice.Decision) (grant int64) {
	d.Allowed = true
	if t.UpTo {
		grant = grantable(places, t)
	}
	for i := range places {
		p, dm, res := &places[i], &t.Demands[i], &d.Results[i]
		cost := int64(dm.Charge())
		if t.UpTo {
			cost = grant
			if grant == 0 {
				cost = min(int64(dm.Charge()), int64(sluice.Token))
			}
		}
		retry := p.spec.RetryIn(&p.state, p.view, cost)
		ahead := retry > 0 && retry <= t.Within.Microseconds() && dm.Limit.Algorithm == sluice.TokenBucket && !t.UpTo && !dm.Shadow
		res.Fits = retry == 0 || ahead
		if ahead {
			d.Delay = max(d.Delay, time.Duration(retry)*time.Microsecond)
			retry = 0
		}
		res.RetryAfter = duration(retry)
		res.Held = !res.Fits && p.view.ForHeld(cost)
		if !res.Fits && !dm.Shadow {
			d.Allowed = false
		}
	}
	return grant
}

// grantable is how much of the cost every limit that can refuse has room for,
// in whole tokens unless it is all of it.
func grantable(places []place, t *sluice.Take) int64 {
	want := int64(t.Demands[0].Charge())
	grant := want
	for i := range places {
		if !t.Demands[i].Shadow {
			grant = min(grant, places[i].view.Available())
		}
	}
	if grant < want {
		grant = max(0, grant-grant%int64(sluice.Token))
	}
	return grant
}

func duration(us int64) time.Duration {
	if us == bucket.Never {
		return sluice.Never
	}
	return time.Duration(us) * time.Microsecond
}

// place is where one demand's bucket is or would be.
type place struct {
	shard  uint32
	hash   uint32
	entry  int // -1: there is none
	entity string
	scope  *scope // of the demand
	spec   *bucket.Spec
	state  bucket.State
	view   bucket.View

	acquired bool // this place counts in scope.refs
	changed  bool
	inserted bool
}

// name finds the place that a key belongs to.
func (p *place) name(s *Store, k *sluice.Key) {
	h := maphash.Comparable(s.seed, *k)
	p.shard, p.hash, p.entity = uint32(h>>(64-shardBits)), uint32(h), k.Entity
}

// cost is what the demand takes here.
func (p *place) cost(dm *sluice.Demand, grant int64) int64 {
	if grant > 0 {
		return grant
	}
	return int64(dm.Charge())
}

// overflow names the overflow buckets, one for each place in a take, with
// entities longer than any that a caller can name.
var overflow = func() (names [sluice.MaxDemands]string) {
	for i := range names {
		names[i] = strings.Repeat("\x00", sluice.MaxKeyPart+1+i)
	}
	return names
}()

// enter locks the shards of all places and looks at their buckets, sending
// new keys to the overflow buckets if the store is full.
func (s *Store) enter(places []place, demands []sluice.Demand, now int64) error {
	for tries := 0; ; tries++ {
		s.lock(places)
		crowded, err := s.look(places, demands, now)
		if err == nil && crowded < 0 {
			return nil
		}
		s.exit(places)
		if err != nil {
			return err
		}
		if tries < 2 && s.makeRoom(places[crowded].shard, now) {
			continue
		}
		// Look again for the overflow bucket, which is in another shard.
		s.overflowed.Add(1)
		k := demands[crowded].Key
		k.Entity = overflow[crowded]
		places[crowded].name(s, &k)
	}
}

// look finds the buckets. It answers the place that has to use the overflow
// bucket instead, or -1.
func (s *Store) look(places []place, demands []sluice.Demand, now int64) (int, error) {
	for i := range places {
		p, dm := &places[i], &demands[i]
		sh := &s.shards[p.shard]
		p.entry = sh.find(&s.scopes, p.hash, &dm.Key, p.entity)
		if p.entry < 0 {
			if len(p.entity) <= sluice.MaxKeyPart && (s.full() || len(sh.entries) >= maxShard) {
				return i, nil
			}
			p.state = bucket.State{}
		} else {
			sc := s.scopes.get(sh.entries[p.entry].scope)
			p.state = sh.state(p.entry)
			if sc.limit == dm.Limit {
				p.scope, p.spec = sc, sc.spec
				p.view = p.spec.View(&p.state, now)
				continue
			}
			// The limit has changed. The state is written only if the take
			// writes, so what it points to is not touched here.
			p.state.Ext = cloneExt(p.state.Ext)
			if err := p.acquire(s, dm); err != nil {
				return -1, err
			}
			p.spec.Adopt(&p.state, sc.spec, now)
			p.view = p.spec.View(&p.state, now)
			continue
		}
		if err := p.acquire(s, dm); err != nil {
			return -1, err
		}
		p.view = p.spec.View(&p.state, now)
	}
	return -1, nil
}

func (p *place) acquire(s *Store, dm *sluice.Demand) error {
	sc, err := s.scopes.acquire(&dm.Key, &dm.Limit)
	if err != nil {
		return err
	}
	p.scope, p.spec, p.acquired = sc, sc.spec, true
	return nil
}

// lock locks the shards of all places in order, each once.
func (s *Store) lock(places []place) {
	if len(places) == 1 {
		s.shards[places[0].shard].mu.Lock()
		return
	}
	for n := s.nextShard(places, -1); n >= 0; n = s.nextShard(places, n) {
		s.shards[n].mu.Lock()
	}
}

// nextShard is the lowest shard above after that a place is in, or -1.
func (s *Store) nextShard(places []place, after int) int {
	next := -1
	for i := range places {
		if n := int(places[i].shard); n > after && (next < 0 || n < next) {
			next = n
		}
	}
	return next
}

// exit writes what has changed and unlocks.
func (s *Store) exit(places []place) {
	for i := range places {
		p := &places[i]
		if p.changed {
			s.write(p)
		}
		if p.acquired {
			s.scopes.release(p.scope)
			p.acquired = false
		}
	}
	for i := range places {
		if p := &places[i]; p.inserted { // not before: it renumbers entries
			s.sweep(&s.shards[p.shard], 2, p.view.Now)
		}
	}
	if len(places) == 1 {
		s.shards[places[0].shard].mu.Unlock()
		return
	}
	for n := s.nextShard(places, -1); n >= 0; n = s.nextShard(places, n) {
		s.shards[n].mu.Unlock()
	}
}

// write stores a place's state, in a new entry if there was none. A use of
// the scope that the place has acquired passes to the entry.
func (s *Store) write(p *place) {
	p.changed = false
	sh := &s.shards[p.shard]
	if p.entry < 0 {
		p.entry = sh.insert(p.hash, p.entity, p.scope.id)
		p.acquired, p.inserted = false, true
		s.buckets.Add(1)
		s.bytes.Add(bucketSize(len(p.entity)))
	} else if p.acquired { // under another limit than before
		e := &sh.entries[p.entry]
		old := s.scopes.get(e.scope)
		e.scope = p.scope.id
		p.scope = old // released instead
	}
	if more := sh.put(p.entry, &p.state); more != 0 {
		s.bytes.Add(more)
	}
}
