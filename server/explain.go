package server

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/internal/badinput"
)

// explanation is which limits apply, from where, and what would be answered.
type explanation struct {
	Text     string                `json:"text"` // for people
	Tier     string                `json:"tier,omitempty"`
	Known    bool                  `json:"known"` // the entity is stored
	Applied  []client.AppliedLimit `json:"applied"`
	Warnings []string              `json:"warnings,omitempty"`
	Decision json.RawMessage       `json:"decision,omitempty"` // not there if no limit applies
	Problem  *problem              `json:"problem,omitempty"`  // what a take would be answered instead
}

// list adds the limits that apply and the warnings. The subject may not name
// who is asking, which is entity.
func (e *explanation) list(applied []catalog.Applied, hidden []catalog.Hidden, subject, entity string) {
	e.Applied = []client.AppliedLimit{}
	for i := range applied {
		a := &applied[i]
		l := client.AppliedLimit{
			Entity: a.Entity, Resource: a.Resource, Limit: a.Limit, Rule: a.Setting.Limit,
			Level: a.Level.String(), Kept: a.From, Until: a.Until, Reason: a.Reason,
		}
		if l.Entity == subject {
			l.Entity = entity
		}
		e.Applied = append(e.Applied, l)
	}
	for _, h := range hidden {
		e.Warnings = append(e.Warnings, h.String())
	}
}

// explain tells which limits apply to a take, from where, and what it would
// be answered. It consumes nothing. Where limits need a lease, the decision is
// that about a lease.
func (s *server) explain(w http.ResponseWriter, r *http.Request, c *caller) error {
	q, err := read[takeRequest](r)
	if err != nil {
		return err
	}
	q.Peek, q.Wait, q.Keep, q.id = true, 0, 0, ""
	var take sluice.Take
	_, err = s.plan(r, c, q, &take, nil, nil)
	if err != nil && !isNoLimit(err) {
		return err
	}
	found := q.found
	if c.own {
		found = found.Announced()
	}
	answer := explanation{Text: found.Explain(q.Entity), Tier: found.Tier, Known: found.Known}
	answer.list(found.Applied, found.HiddenOf(q.Entity), found.Subject.Entity, q.Entity)
	if err == nil {
		d := sluice.Decision{Allowed: true}
		if len(take.Demands) > 0 {
			if err := s.limiter.Decide(r.Context(), &take, &d); err != nil {
				return err
			}
		}
		answer.Decision, err = appendDecision(nil, &d, "", c.own), needsLease(take.Demands)
	}
	if err != nil {
		p := s.problem(r, err)
		answer.Problem = &p
	}
	return list(w, answer, nil)
}

// requestExplanation is an explanation of an HTTP request.
type requestExplanation struct {
	explanation
	Endpoint string        `json:"endpoint,omitempty"`
	Pattern  string        `json:"pattern,omitempty"`
	Cost     sluice.Amount `json:"cost"`
	Caller   string        `json:"caller,omitempty"`
	List     string        `json:"list,omitempty"` // allow or deny, if the caller is on it
	KnownBy  string        `json:"knownBy,omitempty"`
	Outcome  string        `json:"outcome"`
	Status   int           `json:"status"`
	Message  string        `json:"message,omitempty"` // why it would not pass
}

var errNoGate = errors.New("this server has no request policy")

// explainRequest tells what a request would be answered by the policy, and why.
// It consumes nothing.
func (s *server) explainRequest(w http.ResponseWriter, r *http.Request, c *caller) error {
	namespace, err := s.namespaceOf(r, c)
	if err != nil {
		return err
	}
	q, err := read[client.Request](r)
	if err != nil {
		return err
	}
	if s.gate == nil {
		return errNoGate
	}
	policy := s.gate.Policy()
	switch {
	case namespace != policy.Namespace && (c.namespace != "" || r.Header.Get("Sluice-Namespace") != ""):
		return badinput.Field("Sluice-Namespace", namespace, "must be that of the policy, "+policy.Namespace)
	case q.Method == "":
		return badinput.Field("method", `""`, "must be the request's method, such as GET")
	case q.Path == "" || q.Path[0] != '/':
		return badinput.Field("path", q.Path, "must begin with /")
	case strings.Contains(q.Path, "#"):
		return badinput.Field("path", q.Path, "must have no #, which every door answers 400 to; as a part of a name it is %23")
	}
	path, _, _ := strings.Cut(q.Path, "?") // limits go by the path alone
	asked := &httplimit.Request{Method: q.Method, Path: path, Header: http.Header{}}
	for name, value := range q.Headers {
		asked.Header.Set(name, value)
	}
	if q.Key != "" {
		if name := policy.Identity.KeyHeaders[0]; http.CanonicalHeaderKey(name) == "Authorization" {
			asked.Header.Set(name, "Bearer "+q.Key)
		} else {
			asked.Header.Set(name, q.Key)
		}
	}
	if q.Address != "" {
		address, err := netip.ParseAddr(q.Address)
		if err != nil {
			return badinput.Field("address", q.Address, "must be an IP address")
		}
		asked.Remote = net.JoinHostPort(address.String(), "0")
	}
	// It must not be a way to guess keys, except for those who could make one.
	guesser, watched := "explain:"+c.name, c.role&RoleAdmin == 0
	if len(asked.Header) > 0 && watched {
		if err := s.gate.Guess(r.Context(), guesser, 0); err != nil {
			return err
		}
	}
	e := s.gate.Explain(r.Context(), asked)
	var invalid *identity.InvalidError
	if errors.As(e.Err, &invalid) && watched {
		if err := s.gate.Guess(r.Context(), guesser, 1); err != nil {
			return err
		}
	}
	answer := requestExplanation{
		explanation: explanation{Text: e.String(), Tier: e.Tier, Known: e.Known()},
		Endpoint:    e.Route.Endpoint, Pattern: e.Route.Pattern, Cost: e.Route.Cost,
		Caller: e.Identity.Entity, List: e.Listed, Outcome: e.Outcome.String(), Status: e.Status(), Message: e.Message(),
	}
	if answer.list(e.Applied, e.Hidden, "", ""); e.Identity.Entity != "" {
		answer.KnownBy = e.Identity.Kind.String()
	}
	for i := range e.Applied {
		answer.Applied[i].Label = e.Applied[i].Label
	}
	if len(e.Decision.Results) > 0 {
		answer.Decision = appendDecision(nil, &e.Decision, "", c.own)
	}
	return list(w, answer, nil)
}
