package memory

import (
	"encoding/binary"
	"math/bits"

	"github.com/sluice-go/sluice"
)

// table is a hash table of records of one size: open addressing, with the
// records in the table itself.
type table struct {
	// tags has a byte for each slot: empty, dead, or with its highest bit set
	// and seven bits of the hash, so that most other records are passed over
	// without looking at them. The first few stand again behind the last, so
	// that eight can be read from anywhere.
	tags  []byte
	words []int64
	slots uint32
	class uint8 // a slot has 8<<class words

	live int // records
	dead int // removed ones, whose slots are passed over

	tails     []byte // what does not fit into the heads of long entities
	tailWaste int

	exts     []ext // the first is not used
	freeExts []int

	cursor int // where the next few records are checked for being full

	hint *hint // for those without the lock
}

const (
	classes    = 4
	leastSlots = 8
	mostSlots  = 1 << homeBits

	empty = 0
	dead  = 1
	alive = 0x80

	window = 8 // slots whose tags are compared at once
	lows   = 0x0101010101010101
	highs  = 0x8080808080808080
)

func newTable(class uint8, hint *hint) *table {
	t := &table{class: class, hint: hint}
	t.rebuild(0)
	return t
}

// most is how many buckets a record of the table has room for.
func (t *table) most() int { return mostOf(t.class) }

func mostOf(class uint8) int { return 2<<class - 1 }

// classFor is the least class with room for n buckets.
func classFor(n int) uint8 { return uint8(bits.Len(uint(n)) - 1) }

// groupClass is the class of the record that a take of n limits of a subject
// makes.
func groupClass(n int) uint8 { return classFor(min(n, maxGroup)) }

// head is that of the record at an offset, which is the number of its slot and
// one more: 0 is none. It is valid until records are inserted or removed.
func (t *table) head(offset int) *head { return (*head)(t.words[(offset-1)<<(3+t.class):]) }

func (t *table) state(offset, index int) *state {
	return (*state)(t.words[(offset-1)<<(3+t.class)+4+4*index:])
}

// homeOf is the first slot where a record may be. The others follow it.
func homeOf(home uint64, slots uint32) int { return int(home * uint64(slots) >> homeBits) }

func (t *table) wrap(slot int) int {
	if slot >= int(t.slots) {
		slot -= int(t.slots)
	}
	return slot
}

// find is the offset of the record that has k's bucket, and which of its
// buckets that is, by guess; or 0. The entity is k's own, or that of an
// overflow bucket.
func (t *table) find(ss *scopes, address uint64, k *sluice.Key, entity string, guess int) (offset, index int) {
	if t == nil {
		return 0, 0
	}
	slot := homeOf(address>>tagBits, t.slots)
	tags := lows * (alive | address&tagMask)
	// Most records are at home. The processor expects that, too, and reads the
	// record while it waits for the tag.
	if t.tags[slot] == byte(tags) {
		if h := t.head(slot + 1); t.isEntity(h, entity) {
			if index = ss.get(h.scope()).index(k, guess); index >= 0 {
				return slot + 1, index
			}
		}
	}
	for ; ; slot = t.wrap(slot + window) {
		word := binary.LittleEndian.Uint64(t.tags[slot:])
		differ := word ^ tags
		for same := (differ - lows) &^ differ & highs; same != 0; same &= same - 1 {
			if offset, index = t.isAt(t.wrap(slot+bits.TrailingZeros64(same)/8), ss, k, entity, guess); offset > 0 {
				return offset, index
			}
		}
		if (word-lows)&^word&highs != 0 { // an empty slot: it would be there
			return 0, 0
		}
	}
}

// isAt answers as find does if a slot has k's bucket. An unused slot has no
// limits.
func (t *table) isAt(slot int, ss *scopes, k *sluice.Key, entity string, guess int) (offset, index int) {
	h := t.head(slot + 1)
	if !t.isEntity(h, entity) {
		return 0, 0
	}
	if i := ss.get(h.scope()).index(k, guess); i >= 0 {
		return slot + 1, i
	}
	return 0, 0
}

// count is how many records k's subject has at its address.
func (t *table) count(ss *scopes, address uint64, k *sluice.Key, entity string) (n int) {
	for slot := homeOf(address>>tagBits, t.slots); t.tags[slot] != empty; slot = t.wrap(slot + 1) {
		h := t.head(slot + 1)
		if t.tags[slot] == alive|byte(address&tagMask) && t.isEntity(h, entity) && ss.get(h.scope()).covers(k) {
			n++
		}
	}
	return n
}

// fits reports whether a record for entity can be inserted.
func (t *table) fits(entity string) bool {
	return t.live < mostSlots*7/8 && len(t.tails)+len(entity) < 1<<40
}

// insert adds a record and answers its offset. The caller has made sure that
// it is not there, and counts a use of the scope. Other records may move.
func (t *table) insert(address uint64, entity string, scope uint32) int {
	if (t.live+t.dead+1)*8 > int(t.slots)*7 {
		t.rebuild(t.live + 1)
	}
	offset := t.free(address) + 1
	t.name(t.head(offset), address>>tagBits, entity, scope)
	t.live++
	return offset
}

// free claims the first slot that a record may have.
func (t *table) free(address uint64) int {
	for slot := homeOf(address>>tagBits, t.slots); ; slot = t.wrap(slot + window) {
		word := binary.LittleEndian.Uint64(t.tags[slot:])
		if free := ^word & highs; free != 0 {
			slot = t.wrap(slot + bits.TrailingZeros64(free)/8)
			if t.tags[slot] == dead {
				t.dead--
			}
			t.tag(slot, alive|byte(address&tagMask))
			return slot
		}
	}
}

func (t *table) tag(slot int, b byte) {
	t.tags[slot] = b
	if slot < window {
		t.tags[int(t.slots)+slot] = b
	}
}

// slot is the words of the record at offset.
func (t *table) slot(offset int) []int64 {
	return t.words[(offset-1)<<(3+t.class) : offset<<(3+t.class)]
}

// remove deletes the record at offset, answering the bytes it took up.
// Offsets of others stay valid until the table is rebuilt.
func (t *table) remove(offset int) (size int64) {
	h := t.head(offset)
	size = recordSize(t.class, h.length())
	if h.ext() > 0 {
		size += t.dropExt(h)
	}
	if h.shape() == isLong {
		_, n := h.tail()
		t.tailWaste += n
	}
	t.tag(offset-1, dead)
	clear(t.slot(offset))
	t.live--
	t.dead++
	return size
}

// compact gives memory back once a quarter of it is waste.
func (t *table) compact() {
	if t.dead > leastSlots && t.dead > int(t.slots)/4 || t.tailWaste > 64 && t.tailWaste > len(t.tails)/4 {
		t.rebuild(t.live)
	}
}

// rebuild moves all records into a table that n fill to seven ninths, which
// leaves an eighth of growth until the next one.
func (t *table) rebuild(n int) {
	old := *t
	size := 8 << t.class
	// The allocator rounds up: append tells what it really gave.
	t.words = append([]int64(nil), make([]int64, max(leastSlots, n*9/7)*size)...)
	slots := min(cap(t.words)/size, mostSlots)
	t.words = t.words[:slots*size]
	t.tags = make([]byte, slots+window)
	t.slots = uint32(slots)
	t.dead, t.cursor = 0, old.cursor*slots/max(int(old.slots), 1)
	t.tails, t.tailWaste = make([]byte, 0, len(old.tails)-old.tailWaste), 0
	for offset := old.next(0); offset > 0; offset = old.next(offset) {
		h := old.head(offset)
		at := t.free(h.home()<<tagBits|uint64(old.tags[offset-1])&tagMask) + 1
		copy(t.slot(at), old.slot(offset))
		if h.shape() == isLong {
			from, n := h.tail()
			t.head(at)[wordText+2] = int64(len(t.tails)<<16 | n)
			t.tails = append(t.tails, old.tails[from:from+n]...)
		}
	}
	t.hint.set(t)
}

// next is the offset of the record after the one at offset, or the first one
// after 0; it answers 0 at the end.
func (t *table) next(offset int) int {
	if t == nil {
		return 0
	}
	for ; offset < int(t.slots); offset++ {
		if t.tags[offset]&alive != 0 {
			return offset + 1
		}
	}
	return 0
}
