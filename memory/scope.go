package memory

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// scope is what the buckets of one limit have in common.
type scope struct {
	scopeKey
	spec *bucket.Spec
	id   uint32
	refs int // buckets and takes under way that use it
}

type scopeKey struct {
	namespace, resource, name string
	limit                     sluice.Limit
}

// matches reports whether k belongs to the scope, whatever its limit.
func (sc *scope) matches(k *sluice.Key) bool {
	return sc.name == k.Limit && sc.resource == k.Resource && sc.namespace == k.Namespace
}

func (sc *scope) key(entity string) sluice.Key {
	return sluice.Key{Namespace: sc.namespace, Entity: entity, Resource: sc.resource, Limit: sc.name}
}

// scopes keeps each scope once, for as long as it is used. Reading one by its
// id needs no lock, as long as something that counts in refs has that id.
type scopes struct {
	table atomic.Pointer[[]*scope]

	mu    sync.Mutex
	byKey map[scopeKey]*scope
	free  []uint32
}

func (ss *scopes) init() {
	ss.byKey = map[scopeKey]*scope{}
	table := make([]*scope, 1, 64) // 0 is no scope
	ss.table.Store(&table)
}

func (ss *scopes) get(id uint32) *scope { return (*ss.table.Load())[id] }

// acquire finds or makes the scope of a demand and counts a use of it.
func (ss *scopes) acquire(k *sluice.Key, limit *sluice.Limit) (*scope, error) {
	key := scopeKey{k.Namespace, k.Resource, k.Limit, *limit}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if sc := ss.byKey[key]; sc != nil {
		sc.refs++
		return sc, nil
	}
	spec, err := bucket.Compile(*limit)
	if err != nil {
		return nil, err
	}
	sc := &scope{scopeKey: key, spec: spec, refs: 1}
	table := *ss.table.Load()
	if n := len(ss.free); n > 0 {
		sc.id = ss.free[n-1]
		ss.free = ss.free[:n-1]
		table[sc.id] = sc
	} else if len(table) > maxScope {
		return nil, fmt.Errorf("memory store: %w: there are %d different limits, and no room for more", sluice.ErrUnavailable, maxScope)
	} else {
		sc.id = uint32(len(table))
		// Readers of the old table never look past its end; append copies
		// before it would move anything under them.
		table = append(table, sc)
		ss.table.Store(&table)
	}
	ss.byKey[key] = sc
	return sc, nil
}

func (ss *scopes) release(sc *scope) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if sc.refs--; sc.refs > 0 {
		return
	}
	delete(ss.byKey, sc.scopeKey)
	ss.free = append(ss.free, sc.id)
}
