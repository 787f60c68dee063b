package memory

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

const (
	shardBits  = 10
	shardCount = 1 << shardBits
	indexBits  = 20 // of an index word: the entry's number plus one
	maxShard   = 1<<indexBits - 1
	indexMask  = 1<<indexBits - 1
)

// shard is one of the hash tables: open addressing from hashes to entries.
type shard struct {
	mu sync.Mutex

	// index has a word for each place: 0 if it is empty, else the number of
	// an entry plus one, and above it some bits of the hash, so that most
	// other entries are passed over without looking at them.
	index   []uint32
	entries []entry
	keys    []byte // the entities: two bytes of length, then the text
	dead    int    // bytes of keys that nothing refers to

	exts     []ext // 0 is unused
	freeExts []uint32

	cursor int // where the next few entries are checked for being full
}

// entry is one bucket. It has no pointers.
type entry struct {
	used, rem, time, consumed int64

	scope uint32
	hash  uint32
	key   uint32 // offset in keys
	ext   uint32 // number in exts, 0 for none
}

const entrySize = 48

// ext is what only some entries need, and how large it was last time.
type ext struct {
	*bucket.Ext
	size int64
}

// hash is the shard that a key belongs to, and its place there. The limits of
// one entity and resource share a shard, so that a take of several of them
// needs one lock.
func (s *Store) hash(k *sluice.Key) (shard, place uint32) {
	return s.hashLimit(s.hashSubject(k), k)
}

// hashSubject hashes a key without its limit. Empty parts are passed over:
// what they are is told apart by how the others are mixed.
func (s *Store) hashSubject(k *sluice.Key) uint64 {
	h := maphash.String(s.seed, k.Entity)
	if k.Resource != "" {
		h = mix(h, maphash.String(s.seed, k.Resource), 1)
	}
	if k.Namespace != "" {
		h = mix(h, maphash.String(s.seed, k.Namespace), 2)
	}
	return h
}

func (s *Store) hashLimit(subject uint64, k *sluice.Key) (shard, place uint32) {
	h := subject
	if k.Limit != "" {
		h = mix(h, maphash.String(s.seed, k.Limit), 3)
	}
	return uint32(subject >> (64 - shardBits)), uint32(h)
}

// mix makes one hash of two. Both are seeded, so nobody outside can choose
// keys whose hashes meet.
func mix(a, b, salt uint64) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := (bits.RotateLeft64(a, 29) ^ b + salt) * odd
	return h ^ h>>32
}

// find is the number of the entry of entity in k's scope, or -1. The entity
// is k's own, or that of an overflow bucket.
func (sh *shard) find(ss *scopes, hash uint32, k *sluice.Key, entity string) int {
	if len(sh.index) == 0 {
		return -1
	}
	mask := uint32(len(sh.index) - 1)
	tag := hash >> indexBits
	for at := hash & mask; ; at = (at + 1) & mask {
		word := sh.index[at]
		if word == 0 {
			return -1
		}
		if word>>indexBits != tag {
			continue
		}
		i := int(word&indexMask) - 1
		e := &sh.entries[i]
		if e.hash == hash && string(sh.entity(e)) == entity && ss.get(e.scope).matches(k) {
			return i
		}
	}
}

func (sh *shard) entity(e *entry) []byte {
	n := uint32(binary.LittleEndian.Uint16(sh.keys[e.key:]))
	return sh.keys[e.key+2 : e.key+2+n]
}

// state is the entry's state for the arithmetic. It shares the Ext.
func (sh *shard) state(i int) bucket.State {
	e := &sh.entries[i]
	st := bucket.State{Used: e.used, Rem: e.rem, Time: e.time, Consumed: e.consumed}
	if e.ext != 0 {
		st.Ext = sh.exts[e.ext].Ext
	}
	return st
}

// put writes a state back and answers by how many bytes the entry grew.
func (sh *shard) put(i int, st *bucket.State) (more int64) {
	e := &sh.entries[i]
	e.used, e.rem, e.time, e.consumed = st.Used, st.Rem, st.Time, st.Consumed
	if e.ext == 0 && st.Ext == nil {
		return 0
	}
	if e.ext == 0 {
		e.ext = sh.newExt()
	}
	x := &sh.exts[e.ext]
	size := extSize(st.Ext)
	more = size - x.size
	if x.Ext, x.size = st.Ext, size; st.Ext == nil {
		sh.freeExts = append(sh.freeExts, e.ext)
		e.ext = 0
	}
	return more
}

func (sh *shard) newExt() uint32 {
	if n := len(sh.freeExts); n > 0 {
		i := sh.freeExts[n-1]
		sh.freeExts = sh.freeExts[:n-1]
		return i
	}
	if len(sh.exts) == 0 {
		sh.exts = append(sh.exts, ext{})
	}
	sh.exts = append(sh.exts, ext{})
	return uint32(len(sh.exts) - 1)
}

// insert adds an entry and answers its number. The caller has made sure that
// it is not there, and counts a use of the scope.
func (sh *shard) insert(hash uint32, entity string, scope uint32) int {
	if (len(sh.entries)+1)*8 > len(sh.index)*7 {
		sh.reindex(max(8, 2*len(sh.index)))
	}
	if len(sh.entries) == cap(sh.entries) {
		sh.entries = grow(sh.entries, 1)
	}
	if len(sh.keys)+2+len(entity) > cap(sh.keys) {
		sh.keys = grow(sh.keys, 2+len(entity))
	}
	e := entry{scope: scope, hash: hash, key: uint32(len(sh.keys))}
	sh.keys = binary.LittleEndian.AppendUint16(sh.keys, uint16(len(entity)))
	sh.keys = append(sh.keys, entity...)
	sh.entries = append(sh.entries, e)
	sh.link(hash, len(sh.entries)-1)
	return len(sh.entries) - 1
}

// grow makes room for n more with little to spare: append would leave up to
// half as much again unused.
func grow[T any](s []T, n int) []T {
	bigger := make([]T, len(s), len(s)+n+len(s)/8+8)
	copy(bigger, s)
	return bigger
}

func (sh *shard) link(hash uint32, i int) {
	mask := uint32(len(sh.index) - 1)
	at := hash & mask
	for sh.index[at] != 0 {
		at = (at + 1) & mask
	}
	sh.index[at] = hash>>indexBits<<indexBits | uint32(i+1)
}

func (sh *shard) reindex(size int) {
	sh.index = make([]uint32, size)
	for i := range sh.entries {
		sh.link(sh.entries[i].hash, i)
	}
}

// place is where the index refers to entry i.
func (sh *shard) place(i int) uint32 {
	mask := uint32(len(sh.index) - 1)
	at := sh.entries[i].hash & mask
	for int(sh.index[at]&indexMask) != i+1 {
		at = (at + 1) & mask
	}
	return at
}

// remove deletes entry i, answering the bytes it took up; the last entry
// takes its number.
func (sh *shard) remove(i int) (size int64) {
	sh.unlink(sh.place(i))
	e := &sh.entries[i]
	length := len(sh.entity(e))
	sh.dead += 2 + length
	size = bucketSize(length)
	if e.ext != 0 {
		size += sh.exts[e.ext].size
		sh.exts[e.ext] = ext{}
		sh.freeExts = append(sh.freeExts, e.ext)
	}
	if last := len(sh.entries) - 1; i != last {
		at := sh.place(last)
		sh.entries[i] = sh.entries[last]
		sh.index[at] = sh.index[at]>>indexBits<<indexBits | uint32(i+1)
	}
	sh.entries = sh.entries[:len(sh.entries)-1]
	sh.shrink()
	return size
}

// unlink empties a place of the index and moves up what was pushed past it.
func (sh *shard) unlink(at uint32) {
	mask := uint32(len(sh.index) - 1)
	for next := (at + 1) & mask; ; next = (next + 1) & mask {
		word := sh.index[next]
		if word == 0 {
			break
		}
		home := sh.entries[word&indexMask-1].hash & mask
		if (next-home)&mask >= (next-at)&mask {
			sh.index[at] = word
			at = next
		}
	}
	sh.index[at] = 0
}

// shrink gives memory back once three quarters are unused.
func (sh *shard) shrink() {
	if sh.dead > 1024 && sh.dead > len(sh.keys)/2 {
		keys := make([]byte, 0, len(sh.keys)-sh.dead)
		for i := range sh.entries {
			e := &sh.entries[i]
			text := sh.entity(e)
			at := len(keys)
			keys = binary.LittleEndian.AppendUint16(keys, uint16(len(text)))
			keys = append(keys, text...)
			e.key = uint32(at)
		}
		sh.keys, sh.dead = keys, 0
	}
	if cap(sh.entries) > 32 && len(sh.entries) < cap(sh.entries)/4 {
		sh.entries = grow(sh.entries, 0)
		size := 8
		for len(sh.entries)*8 > size*5 {
			size *= 2
		}
		sh.reindex(size)
	}
}
