package policy

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/sluice-go/sluice"
)

// Kind is whose tokens a set counts.
type Kind uint8

const (
	// PerCaller counts for the best-known identity: API key, else user, else
	// address.
	PerCaller Kind = iota
	// PerKey counts for the API key; the set does not apply without one.
	PerKey
	// PerUser counts for the user of a token or the owner of a key; the set
	// does not apply to callers known by their address alone.
	PerUser
	// PerIP counts for the client's address or its IPv6 network.
	PerIP
	// Everyone counts all callers together: the entity is empty.
	Everyone
	// PerHeader counts for each value of a request header.
	PerHeader
	// PerClaim counts for each value of a claim of the caller's token.
	PerClaim
)

func (k Kind) String() string {
	return [...]string{"caller", "key", "user", "ip", "everyone", "header", "claim"}[k]
}

// Set is a set of limits that applies to a request, with the numbers and
// costs for one route and one tier.
type Set struct {
	// Name is the set's name in the file and the resource of its buckets.
	Name string

	Kind Kind

	// Source is the header, in canonical form, or the claim that the set
	// counts by; see [Set.Entity].
	Source string

	// SkipMissing says that requests without that header or claim are not
	// counted by this set. Otherwise they share one bucket, whose entity is
	// Entity("").
	SkipMissing bool

	// Level is how specific the numbers are: [sluice.LevelTierResource],
	// [sluice.LevelTier], [sluice.LevelResource] or [sluice.LevelSystem]. A
	// stored limit that is as specific or more so replaces them; see
	// [Set.AppendLimit]. If the file has no numbers for this tier, it is
	// [sluice.LevelDefault] and Demands is empty: only stored limits apply.
	Level sluice.Level

	// Demands are ready to be taken but for their entity. The slice is
	// shared: do not change it, use [Set.Append].
	Demands []sluice.Demand

	// Labels are the names of the demands' limits for people and response
	// headers, by the same index: the set's name, followed by the limit's
	// if that has one of its own.
	Labels []string

	base   sluice.Demand // what all its demands have in common
	costs  *costs
	prefix string
}

// Namespace is the one that the set's buckets are in.
func (s *Set) Namespace() string { return s.base.Key.Namespace }

// Append adds the set's demands for an entity to dst.
func (s *Set) Append(dst []sluice.Demand, entity string) []sluice.Demand {
	for i := range s.Demands {
		dst = append(dst, s.Demands[i])
		dst[len(dst)-1].Key.Entity = entity
	}
	return dst
}

// AppendLimit adds a demand for a limit whose numbers are not from the file,
// with this set's cost and settings.
func (s *Set) AppendLimit(dst []sluice.Demand, entity, name string, limit sluice.Limit, level sluice.Level) []sluice.Demand {
	if limit == Unlimited {
		return dst
	}
	d := s.demand(name, limit, level)
	d.Key.Entity = entity
	return append(dst, d)
}

// Entity names the bucket's owner for a value of the set's header or claim.
// Values too long for a key are replaced by their hash.
func (s *Set) Entity(value string) string {
	entity := s.prefix + value
	if len(entity) <= sluice.MaxKeyPart {
		return entity
	}
	sum := sha256.Sum256([]byte(value))
	return s.prefix + "sha256:" + hex.EncodeToString(sum[:])
}

func (s *Set) demand(name string, limit sluice.Limit, level sluice.Level) sluice.Demand {
	d := s.base
	d.Key.Limit, d.Limit, d.Level = name, limit, level
	d.Cost = s.costs.of(name, limit)
	return d
}

// fill makes the demands for some numbers.
func (s *Set) fill(n *Numbers, level sluice.Level) {
	s.Level = level
	if n == nil {
		return
	}
	for _, l := range n.Limits {
		s.Demands = append(s.Demands, s.demand(l.Name, l.Limit, level))
		label := s.Name
		if len(n.Limits) > 1 || l.Name != DefaultLimit {
			label += "-" + l.Name
		}
		s.Labels = append(s.Labels, label)
	}
}
