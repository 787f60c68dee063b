package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/identity"
)

// Explanation is a request that was not let through, and what it would be
// answered: its Outcome, Decision and so on are those of the [Call] that it
// would be.
type Explanation struct {
	Call

	// Applied are the limits of the sets that apply, unlimited ones too, and
	// Hidden those that are hidden by more specific levels.
	Applied []catalog.Applied
	Hidden  []catalog.Hidden

	// Listed is the policy's list that the caller is on, "allow" or "deny"; ""
	// if neither was looked at or the caller is on neither.
	Listed string

	// BadKey says what is wrong with the request's idempotency key, which the
	// gateway answers 400 to; nil if nothing is.
	BadKey error

	request *Request
}

var errNoKey = errors.New("the endpoint demands an Idempotency-Key")

// Explain decides a request as [Gate.Decide] does, and consumes nothing.
func (g *Gate) Explain(ctx context.Context, r *Request) *Explanation {
	e := &Explanation{request: r}
	e.reset()
	e.take.Peek = true
	g.judge(ctx, r, &e.Call)
	if rule := e.Route.Idempotency; rule != nil && e.Outcome.Passes() {
		_, sent, err := idempotency.KeyOf(r.Header)
		if e.BadKey = err; err == nil && !sent && rule.Required {
			e.BadKey = errNoKey
		}
	}
	switch {
	case e.Route.Exempt:
	case listed(&e.Policy.Deny, &e.Identity):
		e.Listed = "deny"
	case listed(&e.Policy.Allow, &e.Identity):
		e.Listed = "allow"
	}
	for i := range e.Route.Sets {
		set := &e.Route.Sets[i]
		entity, applies := entityOf(set, r, &e.Identity)
		if !applies || set.Group >= len(e.found) || e.found[set.Group] == nil {
			continue
		}
		found := e.found[set.Group]
		for _, a := range found.Applied {
			if a.Resource != set.Name {
				continue
			}
			if a.Entity == found.Subject.Entity {
				a.Entity = entity
			}
			e.Applied = append(e.Applied, a)
		}
		for _, h := range found.HiddenOf(entity) {
			if h.Resource == set.Name {
				e.Hidden = append(e.Hidden, h)
			}
		}
	}
	for i := range e.take.Demands {
		if d := &e.take.Demands[i]; d.Key.Resource == guessResource {
			e.Applied = append(e.Applied, catalog.Applied{
				Entity: d.Key.Entity, Resource: d.Key.Resource, Limit: d.Key.Limit, Setting: catalog.Setting{Limit: d.Limit},
				Level: d.Level, From: catalog.FromConfig, Label: guessLabel,
			})
		}
	}
	return e
}

// Known reports whether the caller has a record in the catalog.
func (e *Explanation) Known() bool { return len(e.found) > 0 && e.found[0].Known }

// Status returns the status that the request would get, or 200 if it
// would pass.
func (e *Explanation) Status() int {
	switch {
	case e.BadKey != nil:
		return http.StatusBadRequest
	case e.Outcome.Passes():
		return http.StatusOK
	}
	return e.Problem().Status
}

// Message returns why the request would not pass; "" if it would.
func (e *Explanation) Message() string {
	switch {
	case e.BadKey != nil:
		return e.BadKey.Error()
	case e.Outcome.Passes():
		return ""
	}
	return e.Problem().Message
}

// String returns the explanation in words.
func (e *Explanation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: ", e.request.Method, e.request.Path)
	switch {
	case e.Route.Exempt:
		b.WriteString("exempt")
	case e.Route.Endpoint != "":
		fmt.Fprintf(&b, "endpoint %s (%s), cost %s", e.Route.Endpoint, e.Route.Pattern, e.Route.Cost)
	default:
		fmt.Fprintf(&b, "no endpoint, cost %s", e.Route.Cost)
	}
	if e.Identity.Entity != "" {
		fmt.Fprintf(&b, "\ncaller %s, known by %s", e.Identity.Entity, e.Identity.Kind)
		if e.Identity.Kind == identity.ByAddress && !e.Identity.Client.IsValid() {
			b.WriteString(" (the request has no address; callers without one share their limits)")
		}
		if e.Tier != "" {
			fmt.Fprintf(&b, ", tier %s", e.Tier)
		}
		if e.Listed != "" {
			fmt.Fprintf(&b, ", on the %s list", e.Listed)
		}
	}
	b.WriteByte('\n')
	for i := range e.Applied {
		a := &e.Applied[i]
		fmt.Fprintf(&b, "  %s %s: level %s, %s%s\n", a.Label, a.Setting, a.Level, a.From, e.state(a))
	}
	for _, h := range e.Hidden {
		fmt.Fprintf(&b, "  warning: %s\n", h)
	}
	fmt.Fprintf(&b, "answer: %s, %d", e.Outcome, e.Status())
	if why := e.Message(); why != "" {
		fmt.Fprintf(&b, ": %s", why)
	} else if e.degraded() {
		fmt.Fprintf(&b, " (%s: the store is away)", e.Decision.Source)
	}
	b.WriteByte('\n')
	return b.String()
}

// state describes the state of a limit.
func (e *Explanation) state(a *catalog.Applied) string {
	i := slices.IndexFunc(e.Decision.Demands, func(d sluice.Demand) bool {
		return d.Key.Entity == a.Entity && d.Key.Resource == a.Resource && d.Key.Limit == a.Limit
	})
	if i < 0 || i >= len(e.Decision.Results) {
		return ""
	}
	d, r := &e.Decision.Demands[i], &e.Decision.Results[i]
	text := fmt.Sprintf("; bucket %s/%s of %s", d.Key.Resource, d.Key.Limit, cmp.Or(d.Key.Entity, "everyone"))
	if r.Unknown {
		text += ", what is left is not known"
	} else {
		text += fmt.Sprintf(", %s of %s left, cost %s", r.Remaining, d.Limit.Capacity(), d.Charge())
	}
	if !r.Fits {
		text += ", does not fit"
	}
	if d.Shadow {
		text += ", shadow"
	}
	return text
}
