package server

import (
	"crypto/sha256"
	"encoding/base32"
	"net/http"
	"slices"

	"github.com/sluice-go/sluice"
)

// An API key with the scope sluice:take is in the hands of somebody who is
// limited, and may be hostile. It acts for its own entity and for those below
// it, with the limits and the tier that are stored.

// permit refuses a request that is not the caller's to make.
func (s *server) permit(r *http.Request, c *caller, q *takeRequest, namespace string) error {
	if !c.own {
		return nil
	}
	tier := ""
	if q.Entity == c.entity || q.Entity == c.key {
		tier = c.tier
	} else {
		found, err := s.resolve(r, q.subject(namespace))
		if err != nil {
			return err
		}
		if !slices.Contains(found.Ancestors, c.entity) {
			return &forbiddenError{"the key acts for " + c.entity + " and the entities below it; others need the scope sluice:service"}
		}
	}
	switch {
	case q.Limits != nil:
		return &forbiddenError{"the limits are those that are stored; to send some needs the scope sluice:service"}
	case q.Tier != "" && q.Tier != tier:
		return &forbiddenError{"the tier is the one that is stored; to send another needs the scope sluice:service"}
	}
	return nil
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
		for _, now := range found.Demands(nil, d.Key.Entity, nil) {
			d.Unannounced = d.Unannounced || now.Unannounced && now.Key == d.Key
		}
	}
	return nil
}
