package policy

import (
	"context"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// resolved are the limits of all sets of a route for callers of a tier.
func resolved(p *Policy, r *Route, tier string) *catalog.Resolution {
	var names []string
	for i := range r.Sets {
		names = append(names, r.Sets[i].Name)
	}
	var resolver catalog.Declared
	found, err := resolver.Resolve(context.Background(), catalog.Subject{
		Namespace: p.Namespace, Entity: "E", Tier: tier, Resources: catalog.JoinResources(names...), File: p.Declared,
	})
	if err != nil {
		panic(err)
	}
	return found
}

// demands are what a caller of a tier takes from each set of a route.
func demands(p *Policy, r *Route, tier string) (all [][]sluice.Demand) {
	found := resolved(p, r, tier)
	for i := range r.Sets {
		all = append(all, r.Sets[i].Append(nil, found, r.Sets[i].Entity("E")))
	}
	return all
}
