package memory

import (
	"hash/maphash"
	"math/bits"

	"github.com/sluice-go/sluice"
)

// hash is the shard that a key belongs to, and its place there. The limits of
// one entity and resource share a shard, so that a take of several of them
// needs one lock.
func (s *Store) hash(k *sluice.Key) (shard, place uint32) {
	return s.hashLimit(s.hashSubject(k), k)
}

// hashSubject hashes a key without its limit. Empty parts are passed over:
// which they are shows in how the others are mixed.
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

// hashLimit is the place of one limit of a subject. It is hashed as well as
// the rest, since callers may choose the names of limits, too.
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
