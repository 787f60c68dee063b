package memory

import (
	"encoding/binary"
	"math/bits"
	"sync"

	"github.com/sluice-go/sluice"
)

const (
	shardBits  = 10
	shardCount = 1 << shardBits
	leastSlots = 8
	mostSlots  = 1 << homeBits
)

// shard is one of the hash tables: open addressing, with the records in the
// table itself.
type shard struct {
	mu sync.Mutex

	// tags has a byte for each slot: empty, dead, or with its highest bit set
	// and seven bits of the hash, so that most other records are passed over
	// without looking at them. The first few stand again behind the last, so
	// that eight can be read from anywhere.
	tags  []byte
	slots []record

	live int // records
	dead int // removed ones, whose slots are passed over

	tails     []byte // what does not fit into the records of long entities
	tailWaste int

	exts     []ext
	freeExts []int64

	cursor int // where the next few records are checked for being full

	_ [32]byte // so that what look-ups need of a shard is in one line of the cache
}

const (
	empty = 0
	dead  = 1
	alive = 0x80

	window = 8 // slots whose tags are compared at once
	lows   = 0x0101010101010101
	highs  = 0x8080808080808080
)

// at is the record at an offset, which is the number of its slot and one more:
// 0 is none. It is valid until records are inserted or removed.
func (sh *shard) at(offset int) *record { return &sh.slots[offset-1] }

// probe walks over the slots where a record may be: first those around the
// home of its entity and resource, where the limits of most takes are side by
// side; then from the home of its limit on, so that nobody fills one place by
// naming many limits.
type probe struct {
	slot  int
	homes uint64
	moved bool
}

func (sh *shard) probe(homes uint64) probe {
	return probe{slot: sh.home(homes >> homeBits), homes: homes}
}

func (sh *shard) home(h uint64) int { return int(h * uint64(len(sh.slots)) >> homeBits) }

func (p *probe) next(sh *shard) {
	if !p.moved {
		p.slot, p.moved = sh.home(p.homes&(1<<homeBits-1)), true
		return
	}
	p.slot = sh.wrap(p.slot + window)
}

func (sh *shard) wrap(slot int) int {
	if slot >= len(sh.slots) {
		slot -= len(sh.slots)
	}
	return slot
}

// find is the offset of the record of entity in k's scope, or 0. The entity
// is k's own, or that of an overflow bucket.
func (sh *shard) find(ss *scopes, place uint64, k *sluice.Key, entity string) int {
	if len(sh.slots) == 0 {
		return 0
	}
	tags := lows * (alive | place&tagMask)
	for p := sh.probe(place >> tagBits); ; p.next(sh) {
		word := binary.LittleEndian.Uint64(sh.tags[p.slot:])
		differ := word ^ tags
		for same := (differ - lows) &^ differ & highs; same != 0; same &= same - 1 {
			slot := sh.wrap(p.slot + bits.TrailingZeros64(same)/8)
			r := &sh.slots[slot]
			if sh.tags[slot] == byte(tags) && sh.isEntity(r, entity) && ss.get(r.scope()).matches(k) {
				return slot + 1
			}
		}
		if (word-lows)&^word&highs != 0 { // an empty slot: it would be there
			return 0
		}
	}
}

// isAt reports whether there is a record at offset, and it is k's.
func (sh *shard) isAt(offset int, ss *scopes, k *sluice.Key) bool {
	if offset > len(sh.slots) || sh.tags[offset-1]&alive == 0 {
		return false
	}
	r := sh.at(offset)
	return sh.isEntity(r, k.Entity) && ss.get(r.scope()).matches(k)
}

// reserve makes room for n more records, so that inserting them moves nothing.
func (sh *shard) reserve(n int) {
	if (sh.live+sh.dead+n)*8 > len(sh.slots)*7 {
		sh.rebuild(sh.live + n)
	}
}

// fits reports whether a record for entity can be inserted.
func (sh *shard) fits(entity string) bool {
	return sh.live < mostSlots*7/8 && len(sh.tails)+len(entity) < 1<<40
}

// insert adds a record and answers its offset. The caller has made sure that
// it is not there and has reserved room, and counts a use of the scope.
func (sh *shard) insert(place uint64, entity string, scope uint32) int {
	slot := sh.free(place)
	sh.slots[slot] = record{}
	sh.name(&sh.slots[slot], place>>tagBits, entity, scope)
	sh.live++
	return slot + 1
}

// free claims the first slot that a record may have.
func (sh *shard) free(place uint64) int {
	for p := sh.probe(place >> tagBits); ; p.next(sh) {
		word := binary.LittleEndian.Uint64(sh.tags[p.slot:])
		if free := ^word & highs; free != 0 {
			slot := sh.wrap(p.slot + bits.TrailingZeros64(free)/8)
			if sh.tags[slot] == dead {
				sh.dead--
			}
			sh.tag(slot, alive|byte(place&tagMask))
			return slot
		}
	}
}

func (sh *shard) tag(slot int, b byte) {
	sh.tags[slot] = b
	if slot < window {
		sh.tags[len(sh.slots)+slot] = b
	}
}

// remove deletes the record at offset, answering the bytes it took up.
// Offsets of others stay valid until the shard is rebuilt.
func (sh *shard) remove(offset int) (size int64) {
	r := sh.at(offset)
	size = bucketSize(r.length())
	if r.hasExt() {
		size += sh.dropExt(r)
	}
	if r.shape() == isLong {
		_, n := r.tail()
		sh.tailWaste += n
	}
	sh.tag(offset-1, dead)
	sh.live--
	sh.dead++
	return size
}

// compact gives memory back once a quarter of it is waste.
func (sh *shard) compact() {
	if sh.dead > leastSlots && sh.dead > len(sh.slots)/4 || sh.tailWaste > 64 && sh.tailWaste > len(sh.tails)/4 {
		sh.rebuild(sh.live)
	}
}

// rebuild moves all records into a table that n fill to seven ninths, which
// leaves an eighth of growth until the next one.
func (sh *shard) rebuild(n int) {
	old := shard{tags: sh.tags, slots: sh.slots, tails: sh.tails, tailWaste: sh.tailWaste}
	// The allocator rounds up: append tells what it really gave.
	sh.slots = append([]record(nil), make([]record, max(leastSlots, n*9/7))...)
	sh.slots = sh.slots[:min(cap(sh.slots), mostSlots)]
	sh.tags = make([]byte, len(sh.slots)+window)
	sh.dead, sh.cursor = 0, sh.cursor*len(sh.slots)/max(len(old.slots), 1)
	sh.tails, sh.tailWaste = make([]byte, 0, len(old.tails)-old.tailWaste), 0
	for offset := old.next(0); offset > 0; offset = old.next(offset) {
		r := old.at(offset)
		slot := sh.free(r.homes()<<tagBits | uint64(old.tags[offset-1])&tagMask)
		sh.slots[slot] = *r
		if r.shape() == isLong {
			at, n := r.tail()
			sh.slots[slot][wordText+2] = int64(len(sh.tails)<<16 | n)
			sh.tails = append(sh.tails, old.tails[at:at+n]...)
		}
	}
}

// next is the offset of the record after the one at offset, or the first one
// after 0; it answers 0 at the end.
func (sh *shard) next(offset int) int {
	for ; offset < len(sh.slots); offset++ {
		if sh.tags[offset]&alive != 0 {
			return offset + 1
		}
	}
	return 0
}
