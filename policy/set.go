package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
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

// counts is the same as a catalog knows it.
func (k Kind) counts() catalog.Counted {
	return [...]catalog.Counted{catalog.Callers, catalog.Keys, catalog.Users, catalog.Addresses, catalog.Everyone, catalog.Values, catalog.Values}[k]
}

// Set is a set of limits that applies to a request, with how it applies there.
// Its numbers are for a [catalog.Resolver] to find.
type Set struct {
	// Name is the set's name in the file and the resource of its buckets.
	Name string

	Kind Kind

	// Source is the header, in canonical form, or the claim that the set
	// counts by; see [Set.Entity].
	Source string

	// SkipMissing reports that this set does not count requests without that
	// header or claim. Otherwise they share one bucket, whose entity is
	// Entity("").
	SkipMissing bool

	// Group numbers the sets of a route that are looked up together, because
	// they count the same entity or nobody in particular: from 1, or 0 for
	// those that count the caller. Resources are the names of them all, as
	// [catalog.JoinResources] writes them.
	Group     int
	Resources string

	shadow, critical bool
	unannounced      bool
	onUnavailable    sluice.OnUnavailable
	costs            *costs
	prefix           string
}

// Strict reports whether the set's limits must not be guessed at.
func (s *Set) Strict() bool { return s.critical || s.onUnavailable == sluice.Deny }

// Append adds to dst what an entity has to take under the set's limits, which
// are among those of r. Those of its ancestors follow its own. What is stored
// about how a limit applies counts beside what the file says.
func (s *Set) Append(dst []sluice.Demand, r *catalog.Resolution, entity string) []sluice.Demand {
	for i := range r.Applied {
		a := &r.Applied[i]
		if a.Resource != s.Name || a.Unlimited {
			continue
		}
		dst = append(dst, sluice.Demand{
			Key:   sluice.Key{Namespace: r.Subject.Namespace, Entity: a.Entity, Resource: s.Name, Limit: a.Limit},
			Limit: a.Setting.Limit, Level: a.Level, Cost: sluice.Thousandths(s.costs.of(a.Limit, a.Setting.Limit.Algorithm)),
			Shadow: s.shadow, Critical: s.critical, OnUnavailable: s.onUnavailable, Unannounced: s.unannounced,
		})
		d := &dst[len(dst)-1]
		if a.Entity == r.Subject.Entity {
			d.Key.Entity = entity
		}
		if a.From != catalog.FromFile {
			d.Shadow, d.Critical = d.Shadow || a.Setting.Shadow, d.Critical || a.Setting.Critical
			if a.Setting.OnUnavailable != sluice.Degrade {
				d.OnUnavailable = a.Setting.OnUnavailable
			}
		}
	}
	return dst
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

// group finds which sets are looked up together.
func group(sets []Set) {
	var known []string // from 1
	names := map[int][]string{}
	for i := range sets {
		s := &sets[i]
		if s.Group = 0; s.Kind != PerCaller && s.Kind != PerUser {
			what := "nobody"
			switch s.Kind {
			case PerKey:
				what = "keys"
			case PerClaim:
				what = s.prefix
			}
			if s.Group = slices.Index(known, what) + 1; s.Group == 0 {
				known = append(known, what)
				s.Group = len(known)
			}
		}
		names[s.Group] = append(names[s.Group], s.Name)
	}
	for i := range sets {
		sets[i].Resources = catalog.JoinResources(names[sets[i].Group]...)
	}
}
