package memory

import (
	"sync"

	"github.com/sluice-go/sluice"
)

const (
	shardBits  = 10
	shardCount = 1 << shardBits
)

// shard is a part of the buckets with a lock of its own: all of a subject,
// which is a key without its limit.
type shard struct {
	mu sync.Mutex

	// Records of one bucket are in the first table, at the address of their
	// limit. Those of several are in the others, at the address of their
	// subject, which has few of them, so that nobody fills one place by naming
	// many limits. A table is nil until it has a record, so that the garbage
	// collector has little to read in a small store.
	tables [classes]*table

	hot bool // one of the buckets is hot

	_ [16]byte // a whole line of the cache
}

const (
	maxGroup  = 2<<(classes-1) - 1 // buckets in a record
	maxGroups = 4                  // records with several, of a subject
)

// spot is where a bucket is.
type spot struct {
	class  uint8
	offset int // 0: it is nowhere
	index  int
}

// find looks for a bucket, first where a take of n limits of the subject would
// have put it, as number guess of them: at this address in the table for such
// takes.
func (s *Store) find(sh *shard, subject, address uint64, k *sluice.Key, entity string, n, guess int) (at spot) {
	first := groupClass(n)
	at.class = first
	at.offset, at.index = sh.tables[first].find(&s.scopes, address, k, entity, guess)
	for class := uint8(0); at.offset == 0 && class < classes; class++ {
		if t := sh.tables[class]; class != first && t != nil && t.live > 0 {
			at.class = class
			at.offset, at.index = t.find(&s.scopes, s.address(class, subject, k), k, entity, guess)
		}
	}
	return at
}

// groups counts the records with several buckets that a subject has.
func (s *Store) groups(sh *shard, subject uint64, k *sluice.Key, entity string) (n int) {
	for class, t := range sh.tables[1:] {
		if t != nil {
			n += t.count(&s.scopes, s.address(uint8(class+1), subject, k), k, entity)
		}
	}
	return n
}

// fits reports whether a record for entity can be inserted.
func (sh *shard) fits(entity string) bool {
	for _, t := range sh.tables {
		if t != nil && !t.fits(entity) {
			return false
		}
	}
	return true
}
