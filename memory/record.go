package memory

import (
	"encoding/binary"

	"github.com/sluice-go/sluice/bucket"
)

// A record has the buckets of one subject that were first taken together: a
// head, which says whose they are, and a state for each. One with a single
// bucket is one line of the processor's cache, with three it is two, so a
// look-up that finds its record reads one place in memory.
type (
	head  [4]int64
	state [4]int64
)

// The words of a state.
const (
	wordUsed = iota
	wordRem
	wordTime
	wordConsumed
)

// The words of a head: who, and from wordText on the entity. The who is, from
// its upper end, the number of the scope, the entity's length, the number of
// the ext, and the home.
const (
	wordWho = iota
	wordText

	extBits    = homeBits + 1 // 0 is none, so there is one more than of records
	lengthBits = 5
	extAt      = homeBits
	lengthAt   = extAt + extBits
	scopeAt    = lengthAt + lengthBits
	maxScope   = 1<<(64-scopeAt) - 1

	// short is how long an entity may be to stand in the head. Of a longer
	// one the first 16 bytes do, and then where the rest is.
	short   = 24
	isLong  = short + 1
	longCut = 16
)

func (h *head) home() uint64  { return uint64(h[wordWho]) & (1<<homeBits - 1) }
func (h *head) ext() int      { return int(uint64(h[wordWho]) >> extAt & (1<<extBits - 1)) }
func (h *head) shape() int    { return int(uint64(h[wordWho]) >> lengthAt & (1<<lengthBits - 1)) }
func (h *head) scope() uint32 { return uint32(uint64(h[wordWho]) >> scopeAt) }

func (h *head) setScope(id uint32) {
	h[wordWho] = int64(uint64(id)<<scopeAt | uint64(h[wordWho])&(1<<scopeAt-1))
}

func (h *head) setExt(n int) {
	h[wordWho] = int64(uint64(h[wordWho])&^((1<<extBits-1)<<extAt) | uint64(n)<<extAt)
}

// tail is where the rest of a long entity is.
func (h *head) tail() (offset, length int) {
	return int(h[wordText+2] >> 16), int(h[wordText+2] & (1<<16 - 1))
}

// name writes who a new record belongs to.
func (t *table) name(h *head, home uint64, entity string, scope uint32) {
	shape := len(entity)
	if shape > short {
		shape = isLong
		h[wordText+2] = int64(len(t.tails)<<16 | (len(entity) - longCut))
		t.tails = append(t.tails, entity[longCut:]...)
		entity = entity[:longCut]
	}
	for i := wordText; len(entity) > 0; i++ {
		n := min(len(entity), 8)
		h[i] = load(entity[:n])
		entity = entity[n:]
	}
	h[wordWho] = int64(uint64(scope)<<scopeAt | uint64(shape)<<lengthAt | home)
}

// isEntity compares a record's entity, word by word.
func (t *table) isEntity(h *head, entity string) bool {
	if len(entity) == short { // a common case, and a fast one
		return h.shape() == short && h[wordText] == load8(entity) &&
			h[wordText+1] == load8(entity[8:]) && h[wordText+2] == load8(entity[16:])
	}
	if len(entity) > short {
		if h.shape() != isLong || h[wordText] != load8(entity) || h[wordText+1] != load8(entity[8:]) {
			return false
		}
		at, n := h.tail()
		return string(t.tails[at:at+n]) == entity[longCut:]
	}
	if h.shape() != len(entity) {
		return false
	}
	at := wordText
	for ; len(entity) >= 8; at, entity = at+1, entity[8:] {
		if h[at] != load8(entity) {
			return false
		}
	}
	return len(entity) == 0 || h[at] == load(entity)
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
func (h *head) length() int {
	if shape := h.shape(); shape <= short {
		return shape
	}
	_, n := h.tail()
	return longCut + n
}

func (t *table) entity(h *head) string {
	var text [short]byte
	for i := range short / 8 {
		binary.LittleEndian.PutUint64(text[8*i:], uint64(h[wordText+i]))
	}
	if shape := h.shape(); shape <= short {
		return string(text[:shape])
	}
	at, n := h.tail()
	return string(append(text[:longCut:longCut], t.tails[at:at+n]...))
}

// ext is what only some records need: the Ext of each of their buckets, nil
// for those without, and how large they are together.
type ext struct {
	of   []*bucket.Ext
	size int64
}

// read is the state of a record's bucket for the arithmetic. It shares the Ext.
func (t *table) read(offset, index int) bucket.State {
	w := t.state(offset, index)
	st := bucket.State{Used: w[wordUsed], Rem: w[wordRem], Time: w[wordTime], Consumed: w[wordConsumed]}
	if n := t.head(offset).ext(); n > 0 {
		st.Ext = t.exts[n].of[index]
	}
	return st
}

// write writes a state back and answers by how many bytes it grew.
func (t *table) write(offset, index int, st *bucket.State) (more int64) {
	w := t.state(offset, index)
	w[wordUsed], w[wordRem], w[wordTime], w[wordConsumed] = st.Used, st.Rem, st.Time, st.Consumed
	h := t.head(offset)
	n := h.ext()
	if n == 0 {
		if st.Ext == nil {
			return 0
		}
		n = t.newExt()
		h.setExt(n)
	}
	x := &t.exts[n]
	x.of[index] = st.Ext
	size := int64(0)
	for _, e := range x.of {
		size += extSize(e)
	}
	more = size - x.size
	if x.size = size; size == 0 {
		t.dropExt(h)
	}
	return more
}

func (t *table) newExt() (n int) {
	if k := len(t.freeExts); k > 0 {
		n = t.freeExts[k-1]
		t.freeExts = t.freeExts[:k-1]
	} else {
		n = max(len(t.exts), 1) // 0 is none
		t.exts = append(t.exts, make([]ext, n+1-len(t.exts))...)
	}
	t.exts[n].of = make([]*bucket.Ext, t.most())
	return n
}

// dropExt frees a record's ext and answers how large it was.
func (t *table) dropExt(h *head) (size int64) {
	n := h.ext()
	size = t.exts[n].size
	t.exts[n] = ext{}
	t.freeExts = append(t.freeExts, n)
	h.setExt(0)
	return size
}
