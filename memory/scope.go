package memory

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// scope is what the records of one resource with the same limits have in
// common.
type scope struct {
	namespace, resource string
	limits              []scopeLimit
	id                  uint32
	refs                int // records and takes under way that use it
}

type scopeLimit struct {
	name  string
	limit sluice.Limit
	spec  *bucket.Spec // of a scope that is in use
}

// index is which of its limits a key means, whatever the limit's numbers, or
// -1. It looks at the guess first.
func (sc *scope) index(k *sluice.Key, guess int) int {
	if !sc.covers(k) {
		return -1
	}
	if guess < len(sc.limits) && same(sc.limits[guess].name, k.Limit) {
		return guess
	}
	for i := range sc.limits {
		if sc.limits[i].name == k.Limit {
			return i
		}
	}
	return -1
}

func (sc *scope) covers(k *sluice.Key) bool {
	return same(sc.resource, k.Resource) && same(sc.namespace, k.Namespace)
}

// same compares without a call for what is often empty.
func same(a, b string) bool { return len(a) == len(b) && (len(a) == 0 || a == b) }

func (sc *scope) key(entity string, limit int) sluice.Key {
	return sluice.Key{Namespace: sc.namespace, Entity: entity, Resource: sc.resource, Limit: sc.limits[limit].name}
}

// size is what a scope takes up, about.
func (sc *scope) size() int64 {
	size := 300 + len(sc.namespace) + len(sc.resource)
	for i := range sc.limits {
		size += 250 + 2*len(sc.limits[i].name)
	}
	return int64(size)
}

// scopes keeps each scope once, for as long as it is used. Reading one by its
// id needs no lock, as long as something that counts in refs has that id.
type scopes struct {
	table atomic.Pointer[[]*scope]

	bytes *atomic.Int64 // what the store takes up

	mu       sync.Mutex
	byKey    map[string]*scope
	free     []uint32
	reserved int // ids promised to takes that change a limit
}

func (ss *scopes) init(bytes *atomic.Int64) {
	ss.bytes = bytes
	ss.byKey = map[string]*scope{}
	table := make([]*scope, 1, 64)
	table[0] = &scope{} // what an unused slot has: no limit is in it
	ss.table.Store(&table)
}

func (ss *scopes) get(id uint32) *scope { return (*ss.table.Load())[id] }

// scopeKey is what tells scopes apart.
func scopeKey(b []byte, namespace, resource string, limits []scopeLimit) []byte {
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	text(namespace)
	text(resource)
	for i := range limits {
		text(limits[i].name)
		l := &limits[i].limit
		b = append(b, byte(l.Algorithm), byte(l.Calendar))
		b = binary.AppendUvarint(b, uint64(l.Amount.Thousandths()))
		b = binary.AppendUvarint(b, uint64(l.Period))
		b = binary.AppendUvarint(b, uint64(l.Burst.Thousandths()))
		text(l.Zone)
	}
	return b
}

// acquire finds or makes a scope and counts a use of it.
func (ss *scopes) acquire(namespace, resource string, limits []scopeLimit) (*scope, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if err := ss.room(); err != nil {
		return nil, err
	}
	return ss.use(namespace, resource, limits)
}

func (ss *scopes) room() error {
	if len(*ss.table.Load())-len(ss.free)+ss.reserved > maxScope {
		return fmt.Errorf("memory store: %w: there are %d different limits, and no room for more", sluice.ErrUnavailable, maxScope)
	}
	return nil
}

// reserve makes sure that a take can change a limit of a record.
func (ss *scopes) reserve() error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	err := ss.room()
	if err == nil {
		ss.reserved++
	}
	return err
}

// unreserve gives that back, if it was not needed.
func (ss *scopes) unreserve() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.reserved--
}

// change swaps old for a scope with another limit at index, for a take that
// has reserved one.
func (ss *scopes) change(old *scope, index int, spec *bucket.Spec) *scope {
	limits := slices.Clone(old.limits)
	limits[index].limit, limits[index].spec = spec.Limit, spec
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.reserved--
	sc, _ := ss.use(old.namespace, old.resource, limits) // all are compiled
	ss.drop(old)
	return sc
}

// use does it under the lock. Limits without a spec are compiled.
func (ss *scopes) use(namespace, resource string, limits []scopeLimit) (*scope, error) {
	var space [256]byte
	key := scopeKey(space[:0], namespace, resource, limits)
	if sc := ss.byKey[string(key)]; sc != nil {
		sc.refs++
		return sc, nil
	}
	sc := &scope{namespace: namespace, resource: resource, limits: slices.Clone(limits), refs: 1}
	for i := range sc.limits {
		l := &sc.limits[i]
		if l.spec != nil {
			continue
		}
		spec, err := bucket.Compile(l.limit)
		if err != nil {
			return nil, err
		}
		l.spec = spec
	}
	table := *ss.table.Load()
	if n := len(ss.free); n > 0 {
		sc.id = ss.free[n-1]
		ss.free = ss.free[:n-1]
		table[sc.id] = sc
	} else {
		sc.id = uint32(len(table))
		// Readers of the old table never look past its end; append copies
		// before it would move anything under them.
		table = append(table, sc)
		ss.table.Store(&table)
	}
	ss.byKey[string(key)] = sc
	ss.bytes.Add(sc.size())
	return sc, nil
}

func (ss *scopes) release(sc *scope) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.drop(sc)
}

func (ss *scopes) drop(sc *scope) {
	if sc.refs--; sc.refs > 0 {
		return
	}
	var space [256]byte
	delete(ss.byKey, string(scopeKey(space[:0], sc.namespace, sc.resource, sc.limits)))
	(*ss.table.Load())[sc.id] = nil
	ss.free = append(ss.free, sc.id)
	ss.bytes.Add(-sc.size())
}
