package client

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// Explanation is which limits apply to a take, from where, and what it would
// be answered.
type Explanation struct {
	Text     string           // for people
	Tier     string           // of the entity, as it counts
	Known    bool             // the entity is stored
	Applied  []AppliedLimit   // the limits that apply
	Warnings []string         // limits that are hidden by others
	Decision *sluice.Decision // nil if no limit applies; about a lease where limits need one
	Problem  *Error           // what a take would be answered instead; nil if nothing
}

// AppliedLimit is a limit that applies, and why.
type AppliedLimit struct {
	Entity   string       `json:"entity"` // the one asked about, or a parent
	Resource string       `json:"resource,omitempty"`
	Limit    string       `json:"limit"`
	Label    string       `json:"label,omitempty"` // its name in the headers and answers of requests
	Rule     sluice.Limit `json:"rule"`
	Level    string       `json:"level"`
	Kept     catalog.From `json:"kept"` // where: stored, file, default, override or call
	Until    time.Time    `json:"until,omitzero"`
	Reason   string       `json:"reason,omitempty"` // of an override
}

// Explain returns which limits apply to a take, and what it would be answered.
// It consumes nothing.
func (c *Client) Explain(ctx context.Context, t Take) (Explanation, error) {
	body, err := t.body()
	if err != nil {
		return Explanation{}, err
	}
	answer, err := ask[struct {
		Explanation
		Decision *decisionJSON
	}](ctx, c, post(body, "explain"))
	if err == nil && answer.Decision != nil {
		answer.Explanation.Decision, err = answer.Decision.pointer(c.namespace, &t)
	}
	return answer.Explanation, err
}

// Request is an HTTP request to explain.
type Request struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`              // with its escapes
	Key     string            `json:"key,omitempty"`     // the API key that it carries
	Address string            `json:"address,omitempty"` // where it comes from
	Headers map[string]string `json:"headers,omitempty"`
}

// RequestExplanation is what an HTTP request would be answered, and why.
type RequestExplanation struct {
	Explanation
	Endpoint string        // its name in the policy; "" if none matches
	Pattern  string        // the pattern that matches best
	Cost     sluice.Amount // in limits that have no cost of their own
	Caller   string        // the entity
	List     string        // allow or deny, if the caller is on that list
	KnownBy  string        // key, user or ip
	Outcome  string        // as httplimit.Outcome writes it: allowed, refused, unauthenticated and so on
	Status   int           // 200 if it would pass
	Message  string        // why it would not
}

// ExplainRequest returns what the server's policy would answer to a request, and
// why. It consumes nothing.
func (c *Client) ExplainRequest(ctx context.Context, r Request) (RequestExplanation, error) {
	answer, err := ask[struct {
		RequestExplanation
		Decision *decisionJSON
	}](ctx, c, post(r, "explain", "request"))
	if err == nil && answer.Decision != nil {
		answer.RequestExplanation.Decision, err = answer.Decision.pointer(c.namespace, nil)
	}
	return answer.RequestExplanation, err
}
