package memory

import (
	"sync"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

const (
	shardBits  = 10
	shardCount = 1 << shardBits
	offsetBits = 20 // of an index word: where a record begins
	offsetMask = 1<<offsetBits - 1
	maxSlab    = 1 << offsetBits // words
)

// shard is one of the hash tables: open addressing from hashes to records.
type shard struct {
	mu sync.Mutex

	// index has a word for each place: 0 if it is empty, else the offset of a
	// record in the slab, and above it some bits of the hash, so that most
	// other records are passed over without looking at them.
	index []uint32

	// slab is the records, one after the other. Its first word is not used,
	// so that no record has offset 0.
	slab  []int64
	live  int // records
	waste int // words of records that were removed

	exts     []ext // 0 is unused
	freeExts []uint32

	cursor int // where the next few records are checked for being full
}

// record is one bucket: these words, then the entity's bytes in as many words
// as they need. So a look-up that finds its bucket reads one place in memory.
type record [recordWords]int64

// The words of a record. The first four are the state.
const (
	wordUsed = iota
	wordRem
	wordTime
	wordConsumed
	wordWho  // the scope in the upper half, the hash in the lower
	wordMore // the number of the ext in the upper half, the entity's length in the lower; -1 once it is removed
	recordWords
)

func (r *record) hash() uint32  { return uint32(r[wordWho]) }
func (r *record) scope() uint32 { return uint32(r[wordWho] >> 32) }
func (r *record) ext() uint32   { return uint32(r[wordMore] >> 32) }
func (r *record) length() int   { return int(uint32(r[wordMore])) }
func (r *record) removed() bool { return r[wordMore] == -1 }

func (r *record) setScope(id uint32) { r[wordWho] = int64(id)<<32 | r[wordWho]&(1<<32-1) }
func (r *record) setExt(n uint32)    { r[wordMore] = int64(n)<<32 | r[wordMore]&(1<<32-1) }

// ext is what only some records need, and how large it was last time.
type ext struct {
	*bucket.Ext
	size int64
}

// at is the record at an offset. It is valid until the slab moves.
func (sh *shard) at(offset int) *record { return (*record)(sh.slab[offset:]) }

// words is how many words a record takes up with its entity.
func words(length int) int { return recordWords + (length+7)/8 }

// find is the offset of the record of entity in k's scope, or 0. The entity
// is k's own, or that of an overflow bucket.
func (sh *shard) find(ss *scopes, hash uint32, k *sluice.Key, entity string) int {
	if len(sh.index) == 0 {
		return 0
	}
	mask := uint32(len(sh.index) - 1)
	tag := hash >> offsetBits
	for at := hash & mask; ; at = (at + 1) & mask {
		word := sh.index[at]
		if word == 0 {
			return 0
		}
		if word>>offsetBits != tag {
			continue
		}
		offset := int(word & offsetMask)
		r := sh.at(offset)
		if r.hash() == hash && sh.isEntity(offset, r, entity) && ss.get(r.scope()).matches(k) {
			return offset
		}
	}
}

// behind reports whether k's record is the one behind that at *at, and then
// moves there.
func (sh *shard) behind(at *int, ss *scopes, hash uint32, k *sluice.Key) bool {
	next := *at + sh.size(*at)
	if next >= len(sh.slab) {
		return false
	}
	r := sh.at(next)
	if r.removed() || r.hash() != hash || !sh.isEntity(next, r, k.Entity) || !ss.get(r.scope()).matches(k) {
		return false
	}
	*at = next
	return true
}

// isEntity compares a record's entity, word by word.
func (sh *shard) isEntity(offset int, r *record, entity string) bool {
	if r.length() != len(entity) {
		return false
	}
	text := sh.slab[offset+recordWords:]
	for len(entity) >= 8 {
		if text[0] != load(entity) {
			return false
		}
		text, entity = text[1:], entity[8:]
	}
	return len(entity) == 0 || text[0] == loadLast(entity)
}

// load is the first eight bytes of s as a word; loadLast fewer than eight.
func load(s string) int64 {
	_ = s[7]
	return int64(s[0]) | int64(s[1])<<8 | int64(s[2])<<16 | int64(s[3])<<24 |
		int64(s[4])<<32 | int64(s[5])<<40 | int64(s[6])<<48 | int64(s[7])<<56
}

func loadLast(s string) (word int64) {
	for i := range len(s) {
		word |= int64(s[i]) << (8 * i)
	}
	return word
}

func (sh *shard) entity(offset int) string {
	r := sh.at(offset)
	b := make([]byte, 0, r.length()+8)
	for _, word := range sh.slab[offset+recordWords : offset+words(r.length())] {
		for range 8 {
			b = append(b, byte(word))
			word >>= 8
		}
	}
	return string(b[:r.length()])
}

// state is the record's state for the arithmetic. It shares the Ext.
func (sh *shard) state(offset int) bucket.State {
	r := sh.at(offset)
	st := bucket.State{Used: r[wordUsed], Rem: r[wordRem], Time: r[wordTime], Consumed: r[wordConsumed]}
	if n := r.ext(); n != 0 {
		st.Ext = sh.exts[n].Ext
	}
	return st
}

// put writes a state back and answers by how many bytes it grew.
func (sh *shard) put(offset int, st *bucket.State) (more int64) {
	r := sh.at(offset)
	r[wordUsed], r[wordRem], r[wordTime], r[wordConsumed] = st.Used, st.Rem, st.Time, st.Consumed
	n := r.ext()
	if n == 0 && st.Ext == nil {
		return 0
	}
	if n == 0 {
		n = sh.newExt()
		r.setExt(n)
	}
	x := &sh.exts[n]
	size := extSize(st.Ext)
	more = size - x.size
	if x.Ext, x.size = st.Ext, size; st.Ext == nil {
		sh.freeExts = append(sh.freeExts, n)
		r.setExt(0)
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

// fits reports whether a record for entity can be inserted.
func (sh *shard) fits(entity string) bool { return len(sh.slab)+words(len(entity)) < maxSlab }

// insert adds a record and answers its offset. The caller has made sure that
// it is not there and fits, and counts a use of the scope.
func (sh *shard) insert(hash uint32, entity string, scope uint32) int {
	if (sh.live+1)*8 > len(sh.index)*7 {
		sh.reindex(max(8, 2*len(sh.index)))
	}
	if len(sh.slab) == 0 {
		sh.slab = grow(sh.slab, 1+words(len(entity)))[:1]
	}
	offset, size := len(sh.slab), words(len(entity))
	if offset+size > cap(sh.slab) {
		sh.slab = grow(sh.slab, size)
	}
	sh.slab = sh.slab[:offset+size]
	*sh.at(offset) = record{wordWho: int64(scope)<<32 | int64(hash), wordMore: int64(len(entity))}
	text := sh.slab[offset+recordWords:]
	for ; len(entity) >= 8; text, entity = text[1:], entity[8:] {
		text[0] = load(entity)
	}
	if len(entity) > 0 {
		text[0] = loadLast(entity)
	}
	sh.live++
	sh.link(hash, offset)
	return offset
}

// grow makes room for n more with little to spare: append would leave up to
// half as much again unused.
func grow(s []int64, n int) []int64 {
	bigger := make([]int64, len(s), len(s)+n+len(s)/16)
	copy(bigger, s)
	return bigger
}

func (sh *shard) link(hash uint32, offset int) {
	mask := uint32(len(sh.index) - 1)
	at := hash & mask
	for sh.index[at] != 0 {
		at = (at + 1) & mask
	}
	sh.index[at] = hash>>offsetBits<<offsetBits | uint32(offset)
}

func (sh *shard) reindex(size int) {
	sh.index = make([]uint32, size)
	for offset := sh.next(0); offset > 0; offset = sh.next(offset) {
		sh.link(sh.at(offset).hash(), offset)
	}
}

// next is the offset of the record after the one at offset, or the first one
// after 0; it answers 0 at the end.
func (sh *shard) next(offset int) int {
	for {
		if offset == 0 {
			offset = 1
		} else {
			offset += sh.size(offset)
		}
		if offset >= len(sh.slab) {
			return 0
		}
		if !sh.at(offset).removed() {
			return offset
		}
	}
}

// size is how many words the record at offset takes up. That of a removed one
// stands in its first word.
func (sh *shard) size(offset int) int {
	r := sh.at(offset)
	if r.removed() {
		return int(r[0])
	}
	return words(r.length())
}
