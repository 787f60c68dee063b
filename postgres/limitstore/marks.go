package limitstore

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/sluice-go/sluice"
)

// marks are guesses about buckets, for choosing the cheaper way to ask. They
// are kept by hash, so two buckets may share them; a wrong guess costs time
// and nothing else.
type marks struct {
	seed   maphash.Seed
	tight  [markCount]atomic.Bool  // the last take was refused
	uneven [markCount]atomic.Int64 // until that second, take_plain_v2 cannot be used
}

const (
	markCount = 1 << 13

	// unevenFor is how long a bucket is taken for uneven after it was: a
	// little less than holds usually live.
	unevenFor = 5
)

func (m *marks) hash(k *rowKey) uint64 { return maphash.Comparable(m.seed, *k) }

func (m *marks) hashOf(key *sluice.Key) uint64 {
	k := rowKeyOf(key)
	return m.hash(&k)
}

func (m *marks) isTight(hash uint64) bool { return m.tight[hash%markCount].Load() }

func (m *marks) setTight(hash uint64, tight bool) {
	if mark := &m.tight[hash%markCount]; mark.Load() != tight {
		mark.Store(tight)
	}
}

func (m *marks) isUneven(hash uint64, second int64) bool {
	return m.uneven[hash%markCount].Load() > second
}

func (m *marks) setUneven(hash uint64, second int64) {
	m.uneven[hash%markCount].Store(second + unevenFor)
}
