package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// An API key with the scope sluice:take is in the hands of somebody who is
// limited, and may be hostile. It acts for its own entity and for those below
// it, with the limits and the tier that are stored.

// permit refuses a request that is not the caller's to make. It completes
// others with what the policy says: the file that all of the answer goes by,
// the name of an address, and the tier of a caller that asks for themselves.
func (s *server) permit(r *http.Request, c *caller, q *takeRequest, namespace string) error {
	q.file, q.Entity = s.file(namespace), s.named(q.Entity)
	tier := ""
	switch {
	case q.Entity == c.entity:
		tier = c.tier
	case q.Entity == c.key: // it has its owner's
		owner, err := s.resolve(r, catalog.Subject{Namespace: namespace, Entity: c.entity, Tier: c.tier, File: q.file})
		if err != nil {
			return err
		}
		tier = owner.Tier
	case c.own:
		found, err := s.resolve(r, q.subject(namespace))
		if err != nil {
			return err
		}
		if !slices.Contains(found.Ancestors, c.entity) {
			return &forbiddenError{"the key acts for " + c.entity + " and the entities below it; others need the scope sluice:service"}
		}
	}
	switch {
	case c.own && q.Limits != nil:
		return &forbiddenError{"the limits are those that are stored; to send some needs the scope sluice:service"}
	case c.own && q.Tier != "" && q.Tier != tier:
		return &forbiddenError{"the tier is the one that is stored; to send another needs the scope sluice:service"}
	}
	q.Tier = cmp.Or(q.Tier, tier)
	return nil
}

// file is what the policy declares for a namespace. Whoever asks several times
// for one answer asks with one file, so that no answer is half of a reload.
func (s *server) file(namespace string) *catalog.Declaration {
	if s.catalog == nil {
		return nil
	}
	return s.catalog.Declaration(namespace)
}

// named is an entity as the policy names it: addresses go by their network.
func (s *server) named(entity string) string {
	if address, found := strings.CutPrefix(entity, "ip:"); found && s.gate != nil {
		return cmp.Or(s.gate.Address(address), entity)
	}
	return entity
}

// mark is what the ids of takes and leases begin with that the caller may make
// and settle. It names their entity, so it outlives a rotated key, and nobody
// is answered, or settles, what another entity took.
func (c *caller) mark() string {
	if !c.own {
		return ""
	}
	sum := sha256.Sum256([]byte(c.namespace + "/" + c.entity))
	return base32.StdEncoding.EncodeToString(sum[:10]) + "."
}

// mayCharge refuses amounts that no take could have had: refunds, and debts
// that would lock out whoever shares an ancestor's limit.
func (c *caller) mayCharge(demands []sluice.Demand, costs []sluice.LimitCost) error {
	if !c.own {
		return nil
	}
	for _, cost := range costs {
		if cost.Cost.Thousandths() < 0 {
			return &forbiddenError{"to give back needs the scope sluice:service"}
		}
		for i := range demands {
			if d := &demands[i]; d.Key.Limit == cost.Limit && cost.Cost.Compare(d.Limit.Capacity()) > 0 {
				return &forbiddenError{"more than a take of " + cost.Limit + " could ever cost needs the scope sluice:service"}
			}
		}
	}
	return nil
}

// markUnannounced marks the demands that callers are not told about: a store
// that gives back what a lease took does not know.
func (s *server) markUnannounced(r *http.Request, c *caller, namespace string, demands []sluice.Demand) error {
	for i := range demands {
		d := &demands[i]
		q := takeRequest{Entity: d.Key.Entity, Resource: d.Key.Resource}
		if q.Entity == c.entity || q.Entity == c.key {
			q.Tier = c.tier
		}
		found, err := s.resolve(r, q.subject(namespace))
		if err != nil {
			return err
		}
		for _, now := range found.Demands(nil, d.Key.Entity) {
			d.Unannounced = d.Unannounced || now.Unannounced && now.Key == d.Key
		}
	}
	return nil
}
