package memory

import (
	"hash/maphash"
	"math/bits"

	"github.com/sluice-go/sluice"
)

// A place in a shard is, from its upper end, the home of its entity and
// resource, the home of its limit, and a tag.
const (
	homeBits = 17
	tagBits  = 7
	tagMask  = 1<<tagBits - 1
)

// hash is the shard that a key belongs to, and its place there. The limits of
// one entity and resource share a shard, so that a take of several of them
// needs one lock.
func (s *Store) hash(k *sluice.Key) (shard uint32, place uint64) {
	subject := s.hashSubject(k)
	return shardOf(subject), s.place(subject, k)
}

func shardOf(subject uint64) uint32 { return uint32(subject >> (64 - shardBits)) }

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

// place is that of one limit of a subject. The limit is hashed as well as the
// rest, since callers may choose the names of limits, too.
func (s *Store) place(subject uint64, k *sluice.Key) uint64 {
	h := subject
	if k.Limit != "" {
		h = mix(h, maphash.String(s.seed, k.Limit), 3)
	}
	const rest = homeBits + tagBits
	home := subject >> (64 - shardBits - homeBits) & (1<<homeBits - 1)
	return home<<rest | h&(1<<rest-1)
}

// mix makes one hash of two. Both are seeded, so nobody outside can choose
// keys whose hashes meet.
func mix(a, b, salt uint64) uint64 {
	const odd = 0x9e3779b97f4a7c15
	h := (bits.RotateLeft64(a, 29) ^ b + salt) * odd
	return h ^ h>>32
}
