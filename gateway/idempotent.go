package gateway

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/policy"
)

// Idempotent is for [Config.Inner]: it answers repeated writes with stored
// responses, on the routes that the policy's section "idempotency" names. The
// gate comes first, so a refused request claims no key.
func Idempotent(k *idempotency.Keeper) func(http.Handler) http.Handler {
	var known replayRoutes
	return func(next http.Handler) http.Handler {
		return k.Handler(func(r *http.Request) *idempotency.Route {
			c := httplimit.Admitted(r.Context())
			if c == nil {
				return nil
			}
			return known.of(c)
		}, next)
	}
}

// replayRoutes are the routes of the policy in place.
type replayRoutes struct {
	current atomic.Pointer[policyRoutes]
}

type policyRoutes struct {
	policy *policy.Policy
	routes sync.Map // of *policy.Idempotency to *idempotency.Route
}

func (rs *replayRoutes) of(c *httplimit.Call) *idempotency.Route {
	at := rs.current.Load()
	if at == nil || at.policy != c.Policy {
		at = &policyRoutes{policy: c.Policy}
		rs.current.Store(at)
	}
	rule := c.Route.Idempotency
	if route, ok := at.routes.Load(rule); ok {
		return route.(*idempotency.Route)
	}
	route := routeOf(rule)
	at.routes.Store(rule, route)
	return route
}

// routeOf is a rule of the policy as the keeper knows it.
func routeOf(rule *policy.Idempotency) *idempotency.Route {
	route := &idempotency.Route{
		Name:     rule.Name,
		Tenant:   func(r *http.Request) string { return httplimit.Admitted(r.Context()).Identity.Entity },
		Required: rule.Required,
		TTL:      rule.TTL,
		MaxBody:  int64(rule.MaxBody),
	}
	if rule.StoreErrors {
		route.Statuses = []string{"2xx", "4xx", "5xx"}
	}
	if rule.OnCrash == "outcome_unknown" {
		route.OnCrash = idempotency.OutcomeUnknown
	}
	if rule.OnUnavailable == "refuse" {
		route.OnUnavailable = idempotency.Refuse
	}
	switch rule.ReplayCost {
	case "none":
		route.OnReplay = func(r *http.Request) { httplimit.Admitted(r.Context()).Waive(0) }
	case "one":
		route.OnReplay = func(r *http.Request) { httplimit.Admitted(r.Context()).Waive(sluice.Token) }
	}
	if err := route.Prepare(); err != nil {
		panic(err) // the policy has checked all of it
	}
	return route
}
