package httplimit

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/policy"
)

// Idempotent returns a middleware that answers repeated writes with stored
// responses, on the routes that the policy's section "idempotency" names. It
// belongs inside [Gate.Wrap], so that a refused request claims no key.
func Idempotent(k *idempotency.Keeper) func(http.Handler) http.Handler {
	var known replayRoutes
	return func(next http.Handler) http.Handler {
		return k.Handler(func(r *http.Request) *idempotency.Route {
			c := Admitted(r.Context())
			if c == nil || c.Route.Idempotency == nil {
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

func (rs *replayRoutes) of(c *Call) *idempotency.Route {
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
		Name:       rule.Name,
		Tenant:     func(r *http.Request) string { return tenant(rule, r) },
		Identified: func(r *http.Request) bool { return tenant(rule, r) != "" },
		Headers:    slices.Concat(idempotency.DefaultHeaders, rule.Headers),
		Credential: credential,
		Required:   rule.Required,
		TTL:        rule.TTL,
		MaxBody:    int64(rule.MaxBody),
		MaxRun:     rule.MaxRun,
	}
	if rule.StoreErrors {
		route.Statuses = []string{"2xx", "4xx", "5xx"}
	}
	switch rule.OnCrash {
	case "outcome_unknown":
		route.OnCrash = idempotency.OutcomeUnknown
	case "run_again":
		// Whatever executes it may outlive who passed it on.
		route.Life = rule.MaxRun
	}
	if rule.OnUnavailable == "refuse" {
		route.OnUnavailable = idempotency.Refuse
	}
	switch rule.ReplayCost {
	case "none":
		route.OnReplay = func(r *http.Request) { Admitted(r.Context()).Waive(sluice.Amount{}) }
	case "one":
		route.OnReplay = func(r *http.Request) { Admitted(r.Context()).Waive(sluice.Tokens(1)) }
	}
	if err := route.Prepare(); err != nil {
		panic(err) // the policy has checked all of it
	}
	return route
}

// tenant is whose replays they are, in the policy's namespace, for others may
// keep theirs in the same store; "" if the request does not tell.
func tenant(rule *policy.Idempotency, r *http.Request) string {
	c := Admitted(r.Context())
	namespace, id := c.Policy.Namespace, &c.Identity
	if rule.Identity == "required" && id.Kind == identity.ByAddress {
		return ""
	}
	entity := id.Entity
	switch rule.Scope {
	case "namespace":
		return namespace
	case "key":
		entity = id.Key
	case "header":
		entity = ""
		if values := r.Header.Values(rule.Source); len(values) == 1 { // of several, others might read another one
			entity = values[0]
		}
	case "claim":
		entity, _ = id.Claim(rule.Source)
	}
	if entity == "" {
		return ""
	}
	if rule.Source != "" {
		entity = rule.Scope + ":" + rule.Source + ":" + entity
	}
	return idempotency.Tenant(namespace, entity)
}

// credential is what a caller shows to the upstream who is known here by
// address alone, as are all others behind the same one.
func credential(r *http.Request) string {
	if Admitted(r.Context()).Identity.Kind != identity.ByAddress {
		return ""
	}
	return strings.Join(slices.Concat(r.Header["Authorization"], r.Header["X-Api-Key"]), "\n")
}
