package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/internal/badinput"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// plan fills in the take that a request asks for. The demands and costs are
// appended to what is given, and the demands answered.
func (s *server) plan(r *http.Request, c *caller, q *takeRequest, take *sluice.Take, demands []sluice.Demand, costs []sluice.LimitCost) ([]sluice.Demand, error) {
	if err := q.check(); err != nil {
		return demands, err
	}
	priority, err := readPriority(q.Priority)
	if err != nil {
		return demands, err
	}
	if costs, err = readCosts(costs, q.Cost); err != nil {
		return demands, err
	}
	namespace, err := s.namespaceOf(r, c)
	if err != nil {
		return demands, err
	}
	if q.id != "" {
		q.id = c.mark() + q.id
	}
	id, err := scopedID(namespace, idempotency.KeyHeader, q.id)
	if err != nil {
		return demands, err
	}
	if err := s.permit(r, c, q, namespace); err != nil {
		return demands, err
	}
	*take = sluice.Take{ID: id, Asked: q.asked(costs), Peek: q.Peek, UpTo: q.UpTo, Priority: priority, Tier: q.Tier, Keep: time.Duration(q.Keep)}
	demands, err = s.demands(r, namespace, take, q, demands, costs)
	take.Demands = demands
	if q.Wait != 0 {
		take.Resolve = func(ctx context.Context, take *sluice.Take) (err error) {
			take.Demands, err = s.demands(r.WithContext(ctx), namespace, take, q, nil, costs)
			return err
		}
	}
	return demands, err
}

// asked is what makes a request with an id the same as another: not how long it
// waits, nor what the limits are by now.
func (q *takeRequest) asked(costs []sluice.LimitCost) string {
	if q.id == "" {
		return ""
	}
	if len(costs) == 0 {
		costs = []sluice.LimitCost{{Cost: sluice.Tokens(1)}}
	}
	return fmt.Sprintf("%q %q %q %q", q.Entity, q.Resource, costs, q.Limits) // maps are printed in order
}

func (q *takeRequest) check() error {
	if q.Entity == "" {
		return badinput.Field("entity", `""`, "must name who takes")
	}
	if len(q.Entity)|len(q.Resource)|len(q.Tier) > sluice.MaxKeyPart {
		for _, part := range [...]struct{ field, value string }{
			{"entity", q.Entity}, {"resource", q.Resource}, {"tier", q.Tier},
		} {
			if len(part.value) > sluice.MaxKeyPart {
				return badinput.Field(part.field, part.value, "must be at most 255 bytes long")
			}
		}
	}
	if q.Wait < 0 || time.Duration(q.Wait) > maxWait {
		return badinput.Field("wait", time.Duration(q.Wait), "must be between 0 and "+maxWait.String())
	}
	if q.Wait != 0 && q.Peek {
		return badinput.Field("peek", true, "a peek cannot wait")
	}
	if q.Keep < 0 || time.Duration(q.Keep) > sluice.MaxLease {
		return badinput.Field("keep", time.Duration(q.Keep), "must be between 0 and "+sluice.MaxLease.String())
	}
	return nil
}

// scopedID is the id under which a store keeps a take or a lease. It names the
// namespace, so that nobody gets an answer or a lease of another one.
func scopedID(namespace, field, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	if most := sluice.MaxID - 1 - len(namespace); len(id) > most {
		return "", badinput.Field(field, id, fmt.Sprintf("must be at most %d bytes long", most))
	}
	return namespace + "/" + id, nil
}

// demands finds the limits that apply.
func (s *server) demands(r *http.Request, namespace string, take *sluice.Take, q *takeRequest, demands []sluice.Demand, costs []sluice.LimitCost) ([]sluice.Demand, error) {
	own, err := readLimits(q.Limits)
	if err != nil {
		return demands, err
	}
	resolution, err := s.resolve(r, q.subject(namespace))
	if err != nil {
		return demands, err
	}
	resolution = resolution.With(own)
	q.found, take.Tier = resolution, resolution.Tier
	demands = resolution.Demands(demands, q.Entity, costs...)
	if len(demands) == 0 && !resolution.Unlimited() {
		return demands, &noLimitError{q.Entity, q.Resource}
	}
	if len(demands) > sluice.MaxDemands {
		return demands, badinput.Field("limits", len(demands), fmt.Sprintf("must be at most %d together with those of parents", sluice.MaxDemands))
	}
	for _, c := range costs {
		if c.Limit != "" && len(demands) > 0 && !slices.ContainsFunc(demands, func(d sluice.Demand) bool { return d.Key.Limit == c.Limit }) {
			return demands, badinput.Field("cost."+excerpt.Of(c.Limit), c.Cost, "no such limit applies")
		}
	}
	return demands, nil
}

// resolve finds the limits of a subject. A caller of the API is told of a name
// that cannot be one, which the resolver takes for nobody's.
func (s *server) resolve(r *http.Request, who catalog.Subject) (*catalog.Resolution, error) {
	found, err := s.resolver.Resolve(r.Context(), who)
	if err == nil && s.catalog != nil && found.Subject.Entity != who.Entity && !catalog.Anonymous(who.Entity) {
		err = badinput.Field("entity", who.Entity, "must be a name of 1 to 255 bytes without control characters, and not begin with $ or a space")
	}
	return found, err
}

func (q *takeRequest) subject(namespace string) catalog.Subject {
	return catalog.Subject{Namespace: namespace, Entity: q.Entity, Resource: q.Resource, Tier: q.Tier, File: q.file}
}

// decide decides a take, after waiting in line if it asks for that. Where
// everything is unlimited there is nothing to ask.
func (s *server) decide(w http.ResponseWriter, r *http.Request, take *sluice.Take, d *sluice.Decision, wait time.Duration) error {
	if err := needsLease(take.Demands); err != nil && !take.Lease {
		return err
	}
	switch {
	case len(take.Demands) == 0:
		*d = sluice.Decision{Allowed: true}
		return nil
	case wait == 0:
		return s.limiter.Decide(r.Context(), take, d)
	}
	return s.wait(w, r, take, d, wait)
}

// needsLease says that a take is not enough for what is demanded.
func needsLease(demands []sluice.Demand) error {
	for i := range demands {
		if d := &demands[i]; d.Limit.Algorithm == sluice.Concurrency {
			return badinput.Field("limits."+d.Key.Limit, d.Limit, "concurrency needs a lease: POST /v1/leases")
		}
	}
	return nil
}

// noLimitError says that nothing limits what was asked for.
type noLimitError struct{ entity, resource string }

func (e *noLimitError) Error() string {
	return fmt.Sprintf("no limit applies to %q on %q: store one, or send limits", excerpt.Of(e.entity), excerpt.Of(e.resource))
}

func readPriority(s string) (sluice.Priority, error) {
	switch s {
	case "", "normal":
		return sluice.Normal, nil
	case "interactive":
		return sluice.Interactive, nil
	case "batch":
		return sluice.Batch, nil
	}
	return 0, badinput.Field("priority", s, "must be interactive, normal or batch")
}

// readCosts reads an amount of tokens, or one for each limit by its name. No
// cost means one token; an explicit 0 is more likely a mistake than a wish to
// pay one.
func readCosts(costs []sluice.LimitCost, raw json.RawMessage) ([]sluice.LimitCost, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return costs, nil
	}
	if raw[0] != '{' {
		cost, err := readCost("cost", raw)
		return append(costs, sluice.LimitCost{Cost: cost}), err
	}
	var each map[string]json.RawMessage
	if err := json.Unmarshal(raw, &each); err != nil {
		return nil, badinput.Field("cost", string(raw), err.Error())
	}
	if len(each) > sluice.MaxDemands {
		return nil, badinput.Field("cost", len(each), fmt.Sprintf("must be of at most %d limits", sluice.MaxDemands))
	}
	for _, name := range slices.Sorted(maps.Keys(each)) {
		if name == "" {
			return nil, badinput.Field("cost.", string(each[name]), "must name a limit; use one number for all of them")
		}
		cost, err := readCost("cost."+excerpt.Of(name), each[name])
		if err != nil {
			return nil, err
		}
		costs = append(costs, sluice.LimitCost{Limit: name, Cost: cost})
	}
	return costs, nil
}

func readCost(field string, raw json.RawMessage) (sluice.Amount, error) {
	if len(raw) == 1 && raw[0] >= '1' && raw[0] <= '9' { // nearly always
		return sluice.Tokens(int64(raw[0] - '0')), nil
	}
	var cost sluice.Amount
	if err := cost.UnmarshalJSON(raw); err != nil {
		return cost, badinput.Field(field, string(raw), err.Error())
	}
	if cost.Thousandths() <= 0 {
		return cost, badinput.Field(field, cost, "must be above 0; leave it out for one token")
	}
	return cost, nil
}

// sortedCosts are costs in order of their limits.
func sortedCosts(each map[string]sluice.Amount) []sluice.LimitCost {
	var costs []sluice.LimitCost
	for _, name := range slices.Sorted(maps.Keys(each)) {
		costs = append(costs, sluice.LimitCost{Limit: name, Cost: each[name]})
	}
	return costs
}

// readLimits reads the limits that a take brings; nil if it brings none.
func readLimits(limits map[string]string) (catalog.Limits, error) {
	if limits == nil {
		return nil, nil
	}
	if len(limits) == 0 || len(limits) > sluice.MaxDemands {
		return nil, badinput.Field("limits", len(limits), fmt.Sprintf("must be 1 to %d; leave them out for those that are stored", sluice.MaxDemands))
	}
	named := catalog.Limits{}
	for name, text := range limits {
		field := "limits." + excerpt.Of(name)
		if name == "" || len(name) > sluice.MaxKeyPart {
			return nil, badinput.Field(field, text, "a limit needs a name of 1 to 255 bytes")
		}
		limit, err := sluice.Parse(text)
		if err != nil {
			return nil, badinput.Field(field, text, err.Error())
		}
		named[name] = catalog.Setting{Limit: limit}
	}
	return named, nil
}
