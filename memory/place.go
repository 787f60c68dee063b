package memory

import (
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// place is where one demand's bucket is or would be.
type place struct {
	spot
	shard   uint32
	subject uint64 // its hash
	entity  string
	spec    *bucket.Spec
	state   bucket.State
	view    bucket.View
	ask     int64         // what is asked of the bucket
	ticket  bucket.Ticket // the take's, if it has one

	changed bool
	left    bool // the take's ticket was removed
	adopted bool // the limit is another than the record's; a scope is reserved
	repaced bool // and it refills at another rate

	// The first of the places that are to share a new record knows how many
	// they are and has acquired its scope.
	together int
	scope    *scope
}

// name finds the shard that a key belongs to.
func (p *place) name(s *Store, k *sluice.Key) {
	p.subject = s.hashSubject(k)
	p.shard = shardOf(p.subject)
	p.entity = k.Entity
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
		if !s.open(p, &dm.Key, i, len(places), now) {
			return i, nil
		}
		if p.offset > 0 && p.spec.Limit != dm.Limit {
			from := p.spec
			if err := p.adopt(s, dm); err != nil {
				return -1, err
			}
			// The state is written only if the take writes, so what it points
			// to is not touched here.
			p.state.Ext = p.state.Ext.Clone()
			p.spec.Adopt(&p.state, from, now)
			p.repaced = p.spec.Repaces(from)
			p.view = p.spec.View(&p.state, now)
		}
	}
	return -1, s.group(places, demands, now)
}

// open finds a place's bucket under the limit it has, or reports false if it
// is new and there is no room for it. The demand is number i of n.
func (s *Store) open(p *place, k *sluice.Key, i, n int, now int64) bool {
	sh := &s.shards[p.shard]
	p.spot = s.find(sh, p.subject, s.address(groupClass(n), p.subject, k), k, p.entity, n, i)
	if p.offset == 0 {
		p.state = bucket.State{}
		return len(p.entity) > sluice.MaxKeyPart || !s.full() && sh.fits(p.entity)
	}
	t := sh.tables[p.class]
	p.spec = s.scopes.get(t.head(p.offset).scope()).limits[p.index].spec
	p.state = t.read(p.offset, p.index)
	p.view = p.spec.View(&p.state, now)
	if p.view.Idle() && !p.state.Recalled(p.view) {
		// Full means absent, whether it was swept or not: neither its time nor
		// what it had consumed counts.
		p.state.Consumed = 0
		if p.view.Now > now || p.spec.ConsumedBy(&p.state, p.view) != 0 {
			p.state = bucket.State{}
			p.view = p.spec.View(&p.state, now)
		}
	}
	return true
}

// adopt puts a place whose bucket exists under the demand's limit.
func (p *place) adopt(s *Store, dm *sluice.Demand) error {
	spec, err := bucket.Compile(dm.Limit)
	if err != nil {
		return err
	}
	if err := s.scopes.reserve(); err != nil {
		return err
	}
	p.spec, p.adopted = spec, true
	return nil
}

// group finds out which of the buckets that do not exist are to share a
// record: those of one subject that are demanded one after the other.
func (s *Store) group(places []place, demands []sluice.Demand, now int64) error {
	for i := 0; i < len(places); i++ {
		p, k := &places[i], &demands[i].Key
		if p.offset > 0 {
			continue
		}
		n := 1
		for i+n < len(places) && n < maxGroup && places[i+n].offset == 0 && p.joins(&places[i+n], k, &demands[i+n].Key) {
			n++
		}
		if n > 1 && s.groups(&s.shards[p.shard], p.subject, k, p.entity) >= maxGroups {
			n = 1
		}
		var limits [maxGroup]scopeLimit
		for j := range n {
			dm := &demands[i+j]
			limits[j] = scopeLimit{name: dm.Key.Limit, limit: dm.Limit}
		}
		sc, err := s.scopes.acquire(k.Namespace, k.Resource, limits[:n])
		if err != nil {
			return err
		}
		p.together, p.scope = n, sc
		for j := range n {
			q := &places[i+j]
			q.spec = sc.limits[j].spec
			q.view = q.spec.View(&q.state, now)
		}
		i += n - 1
	}
	return nil
}

// joins reports whether two places have the same subject.
func (p *place) joins(q *place, k, l *sluice.Key) bool {
	return p.subject == q.subject && p.entity == q.entity && k.Resource == l.Resource && k.Namespace == l.Namespace
}

// lock locks the shards of all places in order, each once.
func (s *Store) lock(places []place) {
	for n := s.nextShard(places, -1); n >= 0; n = s.nextShard(places, n) {
		s.lockShard(uint32(n))
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
		s.write(&places[i])
	}
	for i := range places { // not before: it may move records
		if n := places[i].together; n > 0 {
			s.insert(places[i : i+n])
		}
	}
	for n := s.nextShard(places, -1); n >= 0; n = s.nextShard(places, n) {
		s.shards[n].mu.Unlock()
	}
}

// write stores the state of a bucket that exists, if it has changed.
func (s *Store) write(p *place) {
	if p.changed && p.offset > 0 {
		t := s.shards[p.shard].tables[p.class]
		if p.adopted {
			h := t.head(p.offset)
			h.setScope(s.scopes.change(s.scopes.get(h.scope()), p.index, p.spec).id)
			p.adopted = false
		}
		if more := t.write(p.offset, p.index, &p.state); more != 0 {
			s.bytes.Add(more)
		}
	}
	if p.adopted {
		s.scopes.unreserve()
		p.adopted = false
	}
}

// insert makes the record that places are to share, if any of them changed.
func (s *Store) insert(places []place) {
	p := &places[0]
	p.together = 0
	changed := false
	for i := range places {
		changed = changed || places[i].changed
	}
	if !changed {
		s.scopes.release(p.scope)
		return
	}
	class := classFor(len(places))
	t := s.shards[p.shard].tables[class]
	if t == nil {
		t = newTable(class, &s.hints[class][p.shard])
		s.shards[p.shard].tables[class] = t
	}
	k := p.scope.key(p.entity, 0)
	at := t.insert(s.address(t.class, p.subject, &k), p.entity, p.scope.id) // with the use of the scope
	size := recordSize(t.class, len(p.entity))
	for i := range places {
		size += t.write(at, i, &places[i].state)
	}
	s.buckets.Add(int64(len(places)))
	s.bytes.Add(size)
	s.sweep(t, 2, p.view.Now)
}
