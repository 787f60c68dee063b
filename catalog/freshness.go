package catalog

import (
	"hash/maphash"
	"sync/atomic"
)

// freshness tells whether an answer may have changed since it was read,
// without looking through the cache: whatever an answer can depend on (an
// entity, a tier, …) has a slot, by its hash, that holds the number of its
// last change. An answer notes the number of the last change of all before
// it is read, and is fresh while none of its slots has a greater one. That
// two things share a slot costs a needless read now and then.
type freshness struct {
	last     atomic.Uint64 // the number of the last change
	all      atomic.Uint64 // of the last change of everything
	slots    [1 << 14]atomic.Uint64
	watching atomic.Bool
}

// seed is per process, so that nobody outside can make names collide.
var seed = maphash.MakeSeed()

func hashName(what byte, namespace, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	h.WriteByte(what)        //nolint:errcheck // it never fails
	h.WriteString(namespace) //nolint:errcheck // it never fails
	h.WriteByte(0)           //nolint:errcheck // it never fails
	h.WriteString(name)      //nolint:errcheck // it never fails
	return h.Sum64()
}

func hashEntity(namespace, id string) uint64   { return hashName('e', namespace, id) }
func hashTier(namespace, id string) uint64     { return hashName('t', namespace, id) }
func hashResource(namespace, id string) uint64 { return hashName('r', namespace, id) }
func hashNamespace(namespace string) uint64    { return hashName('n', namespace, "") }
func hashKey(id string) uint64                 { return hashName('k', "", id) }

func (f *freshness) slot(hash uint64) uint32 { return uint32(hash % uint64(len(f.slots))) }

// bump makes every answer stale that depends on what has this hash.
func (f *freshness) bump(hash uint64) {
	n := f.last.Add(1)
	raise(&f.slots[f.slot(hash)], n)
}

// bumpAll makes every answer stale.
func (f *freshness) bumpAll() { raise(&f.all, f.last.Add(1)) }

func raise(a *atomic.Uint64, to uint64) {
	for {
		old := a.Load()
		if old >= to || a.CompareAndSwap(old, to) {
			return
		}
	}
}

// fresh reports whether nothing that the slots stand for was changed after
// the change with number read.
func (f *freshness) fresh(read uint64, slots []uint32) bool {
	if f.all.Load() > read {
		return false
	}
	for _, s := range slots {
		if f.slots[s].Load() > read {
			return false
		}
	}
	return true
}
