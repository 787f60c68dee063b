package policy_test

import (
	"context"
	"fmt"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/policy"
)

func Example() {
	p, err := policy.Parse("policy.yaml", []byte(`
version: 1
tiers:
  free: {limits: {global: 100/hour, search: 10/minute}}
  pro: {limits: {global: 1000/hour, search: 100/minute}}
default_tier: free
limits:
  global: {per: caller}
  search: {per: caller, match: /api/search}
endpoints:
  search: {match: POST /api/search, cost: 3}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	route := p.Match("POST", "/api/search")
	var resolver catalog.Declared // or a catalog, for limits that are stored, too
	limits, err := resolver.Resolve(context.Background(), catalog.Subject{
		Namespace: p.Namespace, Entity: "user:42", Tier: "pro", Resources: route.Callers, File: p.Declared,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var demands []sluice.Demand
	for i := range route.Sets {
		demands = route.Sets[i].Append(demands, limits, "user:42")
	}
	for _, d := range demands {
		fmt.Println(d.Key.Resource, d.Limit, "cost", d.Cost)
	}
	// Output:
	// global 1000/hour cost 3
	// search 100/minute cost 3
}

// All mistakes of a file are reported at once, each with its place.
func ExampleParse() {
	_, err := policy.Parse("policy.yaml", []byte(`version: 1
limits:
  global: {per: adress, limit: 100/minte}
  search: {mach: /api/search, limit: 10/s}
`))
	fmt.Println(err)
	// Output:
	// policy.yaml:3:17: limits.global.per: is "adress", and one of caller, key, user, ip, everyone, header:NAME, claim:NAME was expected
	// policy.yaml:3:32: limits.global.limit: limit "100/minte": "minte" is not a period: want a unit such as s, minute, h, day or week, with a number before it if it is not one; did you mean "100/minute"?
	// policy.yaml:4:12: limits.search.mach: is not a setting here; expected one of per, limit, match, access, missing, criticality, shadow, announce, on_unavailable; did you mean "match"?
}
