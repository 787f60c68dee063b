package metrics

import (
	"cmp"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

const other = "other"

// mostLabels is how many combinations of labels are told apart, for each
// metric.
const mostLabels = 500

// mostTiers is how many tiers are told apart where each has many series.
const mostTiers = 50

// label makes a caller's string one that Prometheus accepts: it takes nothing
// but UTF-8, and stops the program otherwise.
func label(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// bounded has a series for each of the first few keys, and one for all others.
// The map is replaced, not changed, so that it is read without a lock.
type bounded[K comparable, V any] struct {
	most int       // 0 means mostLabels
	of   func(K) V // makes a series
	rest func() V  // makes the one for all others

	mu    sync.Mutex
	known atomic.Pointer[map[K]V]
	over  atomic.Pointer[V]
}

// get returns the series of a key.
func (b *bounded[K, V]) get(k K) V {
	if known := b.known.Load(); known != nil {
		if v, ok := (*known)[k]; ok {
			return v
		}
		if over := b.over.Load(); over != nil {
			return *over
		}
	}
	return b.add(k)
}

func (b *bounded[K, V]) add(k K) V {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := map[K]V{}
	if known := b.known.Load(); known != nil {
		if v, ok := (*known)[k]; ok {
			return v
		}
		maps.Copy(next, *known)
	}
	if len(next) >= cmp.Or(b.most, mostLabels) {
		v := b.rest()
		b.over.Store(&v)
		return v
	}
	v := b.of(k)
	next[k] = v
	b.known.Store(&next)
	return v
}
