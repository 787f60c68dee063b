package failover

import "github.com/sluice-go/sluice"

// takeShare places a take between 0 and 99. A phase of recovery asks the
// store about the takes below its share, so whoever is asked for in one phase
// is in all later ones.
//
// The place follows from the entities of the take together. One of them alone
// would not do: if all takes have one in common, a global limit's perhaps,
// either all of them or none would be asked.
//
// The hash has no seed, so that all nodes agree and a client that reaches
// several of them does not flip. Whoever chooses a name to fit gains a place
// in line, nothing else.
func takeShare(t *sluice.Take) int {
	var sum uint64
	for i := range t.Demands {
		k := &t.Demands[i].Key
		if !sameEntityBefore(t.Demands[:i], k) {
			sum += hashEntity(k)
		}
	}
	return place(sum)
}

// keyShare places a key by its entity.
func keyShare(k *sluice.Key) int { return place(hashEntity(k)) }

func sameEntityBefore(demands []sluice.Demand, k *sluice.Key) bool {
	for i := range demands {
		if sameEntity(&demands[i].Key, k) {
			return true
		}
	}
	return false
}

func sameEntity(a, b *sluice.Key) bool { return a.Entity == b.Entity && a.Namespace == b.Namespace }

// hashEntity is FNV-1a of the namespace and the entity, kept apart.
func hashEntity(k *sluice.Key) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(k.Namespace) {
		h = (h ^ uint64(k.Namespace[i])) * prime
	}
	h = (h ^ uint64(len(k.Namespace))) * prime
	for i := range len(k.Entity) {
		h = (h ^ uint64(k.Entity[i])) * prime
	}
	return h
}

// place spreads a hash evenly; FNV alone does not, for short names that are
// numbered in a row.
func place(h uint64) int {
	h ^= h >> 30
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 27
	h *= 0x94d049bb133111eb
	h ^= h >> 31
	return int(h % 100)
}

// mustAsk reports whether t is asked of the store as soon as the breaker
// permits: if it is critical, or if there is nothing to decide locally but a
// denial.
func mustAsk(t *sluice.Take) bool {
	for i := range t.Demands {
		if dm := &t.Demands[i]; dm.Critical || dm.OnUnavailable == sluice.Deny && !dm.Shadow {
			return true
		}
	}
	return false
}
