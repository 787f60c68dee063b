package httplimit

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/identity"
)

// The problem types that the IETF draft registers.
const (
	typeQuota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	typeCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	typeAbnormal = "https://iana.org/assignments/http-problem-types#abnormal-usage-detected"

	titleCapacity = "Temporarily reduced capacity"
)

// Problem is the body of a response that turns a request away: a problem
// document (RFC 9457) with some more members, or the same members alone.
type Problem struct {
	Type   string `json:"type,omitempty"`
	Title  string `json:"title,omitempty"`
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail,omitempty"`
	Error  string `json:"error,omitempty"` // the title, in plain JSON

	Violated   []string       `json:"violated-policies,omitempty"`
	Code       string         `json:"code"`
	Message    string         `json:"message"`
	Tier       string         `json:"tier,omitempty"`
	Limit      string         `json:"limit,omitempty"`      // the limit to wait longest for
	Rule       string         `json:"rule,omitempty"`       // its rule: "100/hour"
	Level      string         `json:"level,omitempty"`      // where its rule comes from
	Capacity   *sluice.Amount `json:"capacity,omitempty"`   // what it has when nothing is used
	Remaining  *sluice.Amount `json:"remaining,omitempty"`  // what is not used; absent if that is not known
	RetryAfter *int64         `json:"retryAfter,omitempty"` // seconds; absent if waiting does not help
	Docs       string         `json:"documentation,omitempty"`
	Upgrade    string         `json:"upgrade,omitempty"`

	Scopes []string `json:"scopes,omitempty"` // that the caller lacks

	// LatestAfter is in how many seconds it passes at the latest if nobody
	// else comes. It is there for concurrency limits only, whose RetryAfter
	// is a guess: a place may be freed at any moment.
	LatestAfter *int64 `json:"latestAfter,omitempty"`
}

// Problem returns why the request does not pass.
func (c *Call) Problem() Problem {
	p := Problem{Docs: c.Policy.Refusal.Docs, Tier: c.Tier}
	if c.RetryAfter > 0 && c.RetryAfter != sluice.Never {
		seconds := ceilSeconds(c.RetryAfter)
		p.RetryAfter = &seconds
	}
	switch c.Outcome {
	case Refused:
		c.refusal(&p)
	case Unauthenticated:
		p.Status, p.Title, p.Code = http.StatusUnauthorized, "Unauthorized", "ERR_INVALID_CREDENTIALS"
		p.Message, p.Tier = "the API key is not valid", ""
		if c.invalidToken() {
			p.Message = "the token is not valid"
		}
	case Denylisted:
		p.Status, p.Title, p.Code = http.StatusForbidden, "Forbidden", "ERR_DENIED"
		p.Message, p.Tier = "requests from here are not accepted", ""
	case Forbidden:
		p.Status, p.Title, p.Code = http.StatusForbidden, "Forbidden", "ERR_SCOPE"
		p.Scopes, p.Tier = c.missingScopes(), ""
		p.Message = fmt.Sprintf("this needs the scope %s, which the %s does not have", strings.Join(p.Scopes, " and "), credentialNames[c.Identity.Kind])
		if c.Identity.Kind == identity.ByAddress {
			p.Status, p.Title = http.StatusUnauthorized, "Unauthorized"
			p.Message = fmt.Sprintf("this needs an API key or token with the scope %s", strings.Join(p.Scopes, " and "))
		}
	case Banned:
		p.Type, p.Status, p.Title, p.Code = typeAbnormal, http.StatusTooManyRequests, "Abnormal usage detected", "ERR_BANNED"
		p.Message = "too many requests went on after they were refused"
	default:
		p.Type, p.Status, p.Title, p.Code = typeCapacity, http.StatusServiceUnavailable, titleCapacity, "ERR_LIMITER_UNAVAILABLE"
		p.Message = "the limits cannot be checked now"
	}
	p.Detail = p.Message
	return p
}

func (c *Call) invalidToken() bool {
	var invalid *identity.InvalidError
	return errors.As(c.Err, &invalid) && invalid.Kind == identity.ByToken
}

// refusal names every limit that had no room, and the one to wait for.
func (c *Call) refusal(p *Problem) {
	d := &c.Decision
	demand, result := d.Deciding()
	for i := range d.Results {
		if !d.Results[i].Fits && !hidden(&d.Demands[i]) {
			p.Violated = append(p.Violated, c.Labels[i])
		}
	}
	r := &c.Policy.Refusal
	p.Type, p.Status, p.Code = typeQuota, http.StatusTooManyRequests, r.Code
	p.Title = "Request cannot be satisfied as assigned quota has been exceeded"
	reason := d.Reason()
	if reason != "" {
		p.Type, p.Title = typeCapacity, titleCapacity
	}
	if demand.Unannounced {
		if p.Message = r.Message; p.Message == "" {
			p.Message = "too many requests"
			if p.RetryAfter != nil {
				p.Message += fmt.Sprintf("; retry in %d s", *p.RetryAfter)
			}
		}
		return
	}
	p.Limit, p.Rule, p.Level = c.Labels[d.Decider], demand.Limit.String(), demand.Level.String()
	capacity := demand.Limit.Capacity()
	p.Capacity = &capacity
	if d.Source < sluice.Degraded { // a local quota says nothing about what is left
		p.Upgrade = c.Policy.Upgrade(c.Tier)
		if !result.Unknown {
			p.Remaining = &result.Remaining
		}
	}
	if result.LatestAfter > d.RetryAfter && result.LatestAfter != sluice.Never {
		seconds := ceilSeconds(result.LatestAfter)
		p.LatestAfter = &seconds
	}
	p.Message = r.Message
	if p.Message != "" {
		return
	}
	of := ""
	if p.Tier != "" && (demand.Level == sluice.LevelTier || demand.Level == sluice.LevelTierResource) {
		of = fmt.Sprintf(" of the %s tier", p.Tier)
	}
	if p.RetryAfter == nil {
		p.Message = fmt.Sprintf("a request at a cost of %s can never pass the limit %s%s (%s)", demand.Charge(), p.Limit, of, p.Rule)
		return
	}
	why := "the limit %s%s (%s) is exhausted"
	switch {
	case reason != "":
		why = "the limit %s%s (%s) was not asked: " + reason
	case result.Held:
		why = "what is left of the limit %s%s (%s) is held by nodes"
	}
	p.Message = fmt.Sprintf(why+"; retry in %d s", p.Limit, of, p.Rule, *p.RetryAfter)
	switch {
	case p.LatestAfter != nil:
		p.Message += fmt.Sprintf(", at the latest in %d s", *p.LatestAfter)
	case result.Held:
		p.Message += " at the latest, and sooner if some of it comes back"
	}
}

// Refuse answers a request that does not pass, with a [Problem] as its body.
// It is the one place where outcomes become statuses.
func (c *Call) Refuse(w http.ResponseWriter) {
	h := w.Header()
	p := c.Problem()
	status := p.Status
	switch {
	case c.Outcome == Unauthenticated:
		h.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	case c.Outcome == Forbidden && status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", fmt.Sprintf(`Bearer scope="%s"`, strings.Join(p.Scopes, " ")))
	case c.Outcome == Forbidden:
		h.Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_scope", scope="%s"`, strings.Join(p.Scopes, " ")))
	}
	contentType := "application/problem+json"
	if c.Policy.Refusal.Format == "json" {
		contentType = "application/json"
		p.Error = p.Title
		p.Type, p.Title, p.Status, p.Detail, p.Violated = "", "", 0, "", nil
	}
	body, err := json.Marshal(p)
	if err != nil { // a Problem has nothing that cannot be written
		panic(err)
	}
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(append(body, '\n')) //nolint:errcheck // the client may have gone
}
