package memory

import (
	"encoding/binary"

	"github.com/sluice-go/sluice/bucket"
)

// record is one bucket, with its entity, in one line of the processor's
// cache: a look-up that finds its bucket reads one place in memory.
type record [8]int64

// The words of a record. The first four are the state.
const (
	wordUsed = iota
	wordRem  // the number of the ext instead, if there is one
	wordTime
	wordConsumed
	wordWho
	wordText // from here on
)

// The who of a record is, from its upper end: 24 bits of scope, 5 of the
// entity's length, one that says whether there is an ext, and 34 of hash.
const (
	homesBits  = 2 * homeBits
	homesMask  = 1<<homesBits - 1
	extBit     = 1 << homesBits
	lengthBits = 5
	lengthAt   = homesBits + 1
	scopeAt    = lengthAt + lengthBits
	maxScope   = 1<<(64-scopeAt) - 1

	// short is how long an entity may be to stand in the record. Of a longer
	// one the first 16 bytes do, and then where the rest is.
	short   = 24
	isLong  = short + 1
	longCut = 16
)

func (r *record) homes() uint64 { return uint64(r[wordWho]) & homesMask }
func (r *record) scope() uint32 { return uint32(uint64(r[wordWho]) >> scopeAt) }
func (r *record) hasExt() bool  { return r[wordWho]&extBit != 0 }
func (r *record) shape() int    { return int(uint64(r[wordWho]) >> lengthAt & (1<<lengthBits - 1)) }

func (r *record) setScope(id uint32) {
	r[wordWho] = int64(uint64(id)<<scopeAt | uint64(r[wordWho])&(1<<scopeAt-1))
}

// tail is where the rest of a long entity is.
func (r *record) tail() (offset, length int) {
	return int(r[wordText+2] >> 16), int(r[wordText+2] & (1<<16 - 1))
}

// name writes who a new record belongs to.
func (sh *shard) name(r *record, homes uint64, entity string, scope uint32) {
	shape := len(entity)
	if shape > short {
		shape = isLong
		r[wordText+2] = int64(len(sh.tails)<<16 | (len(entity) - longCut))
		sh.tails = append(sh.tails, entity[longCut:]...)
		entity = entity[:longCut]
	}
	for i := wordText; len(entity) > 0; i++ {
		n := min(len(entity), 8)
		r[i] = load(entity[:n])
		entity = entity[n:]
	}
	r[wordWho] = int64(uint64(scope)<<scopeAt | uint64(shape)<<lengthAt | homes)
}

// isEntity compares a record's entity, word by word.
func (sh *shard) isEntity(r *record, entity string) bool {
	if len(entity) == short { // a common case, and a fast one
		return r.shape() == short && r[wordText] == load8(entity) &&
			r[wordText+1] == load8(entity[8:]) && r[wordText+2] == load8(entity[16:])
	}
	if len(entity) > short {
		if r.shape() != isLong || r[wordText] != load8(entity) || r[wordText+1] != load8(entity[8:]) {
			return false
		}
		at, n := r.tail()
		return string(sh.tails[at:at+n]) == entity[longCut:]
	}
	if r.shape() != len(entity) {
		return false
	}
	at := wordText
	for ; len(entity) >= 8; at, entity = at+1, entity[8:] {
		if r[at] != load8(entity) {
			return false
		}
	}
	return len(entity) == 0 || r[at] == load(entity)
}

// load8 is the first eight bytes of s as a word; load those of a shorter one.
func load8(s string) int64 {
	_ = s[7]
	return int64(s[0]) | int64(s[1])<<8 | int64(s[2])<<16 | int64(s[3])<<24 |
		int64(s[4])<<32 | int64(s[5])<<40 | int64(s[6])<<48 | int64(s[7])<<56
}

func load(s string) (word int64) {
	for i := range len(s) {
		word |= int64(s[i]) << (8 * i)
	}
	return word
}

// length is that of a record's entity.
func (r *record) length() int {
	if shape := r.shape(); shape <= short {
		return shape
	}
	_, n := r.tail()
	return longCut + n
}

func (sh *shard) entity(r *record) string {
	var text [short]byte
	for i := range short / 8 {
		binary.LittleEndian.PutUint64(text[8*i:], uint64(r[wordText+i]))
	}
	if shape := r.shape(); shape <= short {
		return string(text[:shape])
	}
	at, n := r.tail()
	return string(append(text[:longCut:longCut], sh.tails[at:at+n]...))
}

// ext is what only some records need: their remainder, whose word has the
// number of the ext, and how large it was last time.
type ext struct {
	*bucket.Ext
	rem  int64
	size int64
}

// state is the record's state for the arithmetic. It shares the Ext.
func (sh *shard) state(offset int) bucket.State {
	r := sh.at(offset)
	st := bucket.State{Used: r[wordUsed], Rem: r[wordRem], Time: r[wordTime], Consumed: r[wordConsumed]}
	if r.hasExt() {
		x := &sh.exts[r[wordRem]]
		st.Ext, st.Rem = x.Ext, x.rem
	}
	return st
}

// put writes a state back and answers by how many bytes it grew.
func (sh *shard) put(offset int, st *bucket.State) (more int64) {
	r := sh.at(offset)
	r[wordUsed], r[wordTime], r[wordConsumed] = st.Used, st.Time, st.Consumed
	switch {
	case st.Ext != nil:
		if !r.hasExt() {
			r[wordRem] = sh.newExt()
			r[wordWho] |= extBit
		}
		x := &sh.exts[r[wordRem]]
		size := extSize(st.Ext)
		more = size - x.size
		*x = ext{st.Ext, st.Rem, size}
	case r.hasExt():
		more = -sh.dropExt(r)
		fallthrough
	default:
		r[wordRem] = st.Rem
	}
	return more
}

func (sh *shard) newExt() int64 {
	if n := len(sh.freeExts); n > 0 {
		i := sh.freeExts[n-1]
		sh.freeExts = sh.freeExts[:n-1]
		return i
	}
	sh.exts = append(sh.exts, ext{})
	return int64(len(sh.exts) - 1)
}

// dropExt frees a record's ext and answers how large it was.
func (sh *shard) dropExt(r *record) (size int64) {
	n := r[wordRem]
	size = sh.exts[n].size
	sh.exts[n] = ext{}
	sh.freeExts = append(sh.freeExts, n)
	r[wordWho] &^= extBit
	return size
}
