package memory

import (
	"sync/atomic"
	"unsafe"

	"github.com/sluice-go/sluice"
)

// hint is where a table is, for those who do not have the lock of its shard.
// What they read may be out of date, or not belong together: then the
// processor has fetched something in vain.
//
// The addresses are mere numbers: they keep nothing alive, and the garbage
// collector need not read them.
type hint struct {
	table, tags, words atomic.Uintptr
	slots              atomic.Uint32
	hot                atomic.Bool // of the first class: a bucket of the shard is hot
}

func (h *hint) set(t *table) {
	h.table.Store(uintptr(unsafe.Pointer(t)))
	h.tags.Store(uintptr(unsafe.Pointer(&t.tags[0])))
	h.words.Store(uintptr(unsafe.Pointer(&t.words[0])))
	h.slots.Store(t.slots)
}

// prefetch lets the processor fetch what a take of n limits will need while it
// does what comes before that. In a store that is large and busy, the lock, the
// table, the tag and the record are not in its caches, and behind the lock it
// would fetch one after the other. It answers the bucket's address in the table
// for such takes.
func (s *Store) prefetch(subject uint64, k *sluice.Key, n int) uint64 {
	const line = 64
	class, shard := classFor(n), shardOf(subject)
	address := s.address(class, subject, k)
	h := &s.hints[class][shard]
	slot := uintptr(homeOf(address>>tagBits, h.slots.Load()))
	record := h.words.Load() + slot*line<<class
	fetch(&s.shards[shard].mu, h.table.Load(), h.tags.Load()+slot, record, record+line<<class-line)
	return address
}
