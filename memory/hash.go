package memory

import (
	"hash/maphash"
	"math/bits"

	"github.com/sluice-go/sluice"
)

// An address in a table is, from its upper end, a home and a tag.
const (
	homeBits = 17
	tagBits  = 7
	tagMask  = 1<<tagBits - 1
)

// odd spreads what it is multiplied with over all bits.
const odd = 0x9e3779b97f4a7c15

// shardOf is the shard of a subject, which all of its limits share, so that a
// take of several of them needs one lock.
func shardOf(subject uint64) uint32 { return uint32(subject >> (64 - shardBits)) }

// hashSubject hashes a key without its limit. Empty parts are passed over:
// which they are shows in how the others are mixed.
func (s *Store) hashSubject(k *sluice.Key) uint64 {
	h := s.hash(k.Entity)
	if k.Resource != "" {
		h = mix(h, s.hash(k.Resource), 1)
	}
	if k.Namespace != "" {
		h = mix(h, s.hash(k.Namespace), 2)
	}
	return h
}

// hash hashes a part of a key.
func (s *Store) hash(text string) uint64 { return maphash.String(s.seed, text) }

// address is where a record belongs in the table of a class of its shard. A
// record of one limit has that limit in its hash, too, since callers may choose
// the names of limits as well as the rest.
func (s *Store) address(class uint8, subject uint64, k *sluice.Key) uint64 {
	const bits = homeBits + tagBits
	if class == 0 && k.Limit != "" {
		subject = mix(subject, s.hash(k.Limit), 3)
	}
	return subject >> (64 - shardBits - bits) & (1<<bits - 1)
}

// mix makes one hash of two. Both are seeded, so nobody outside can choose
// keys whose hashes meet.
func mix(a, b, salt uint64) uint64 {
	h := (bits.RotateLeft64(a, 29) ^ b + salt) * odd
	return h ^ h>>32
}
