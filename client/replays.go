package client

import (
	"context"
	"strings"
	"time"

	"github.com/sluice-go/sluice/idempotency"
)

// replayJSON names a record and what is to become of it. An entity stands for
// its tenant in the caller's namespace.
type replayJSON struct {
	Entity      string                   `json:"entity,omitempty"`
	Method      string                   `json:"method"`
	Route       string                   `json:"route"`
	Key         string                   `json:"key"`
	Token       *idempotency.Token       `json:"token,omitempty"`
	Fingerprint *idempotency.Fingerprint `json:"fingerprint,omitempty"`
	Life        string                   `json:"life,omitempty"`
	TTL         string                   `json:"ttl,omitempty"`
	TakeOver    bool                     `json:"takeOver,omitempty"`
	Response    *idempotency.Response    `json:"response,omitempty"`
}

func replayBody(s idempotency.Scope) replayJSON {
	return replayJSON{Entity: entityOf(s.Tenant), Method: s.Method, Route: s.Route, Key: s.Key}
}

// entityOf is whoever a tenant is inside of its namespace.
func entityOf(tenant string) string {
	_, entity, _ := strings.Cut(tenant, "/")
	return entity
}

// ReplayAnswer is the answer to a claim. Token is needed to extend, complete
// or release it; Response is there if the verdict is Finished.
type ReplayAnswer struct {
	idempotency.Answer
	Token    idempotency.Token     `json:"token"`
	Response *idempotency.Response `json:"response,omitempty"`
}

// ClaimReplay asks for an idempotency key: the verdict says whether to run,
// to replay, to wait or to refuse. Without a token the server draws one; a
// life of 0 means 30 s and a TTL of 0 a day. The scope's tenant is the client's
// namespace or, here and in all that follows, an entity in it if it names one:
// see [idempotency.Tenant]. Who may only see their own has to name nobody.
func (c *Client) ClaimReplay(ctx context.Context, claim idempotency.Claim) (ReplayAnswer, error) {
	body := replayBody(claim.Scope)
	if claim.Token != (idempotency.Token{}) {
		body.Token = &claim.Token
	}
	body.Fingerprint, body.Life, body.TTL, body.TakeOver = &claim.Fingerprint, span(claim.Life), span(claim.TTL), claim.TakeOver
	return ask[ReplayAnswer](ctx, c, post(body, "replays", "claim"))
}

// ExtendReplay extends a claim to last for life from now.
func (c *Client) ExtendReplay(ctx context.Context, s idempotency.Scope, token idempotency.Token, life time.Duration) error {
	body := replayBody(s)
	body.Token, body.Life = &token, span(life)
	return c.do(ctx, post(body, "replays", "extend"), nil)
}

// CompleteReplay ends a claim: from now on, for ttl (0 means a day), its
// response is r.
func (c *Client) CompleteReplay(ctx context.Context, s idempotency.Scope, token idempotency.Token, r idempotency.Response, ttl time.Duration) error {
	body := replayBody(s)
	body.Token, body.Response, body.TTL = &token, &r, span(ttl)
	return c.do(ctx, post(body, "replays", "complete"), nil)
}

// ReleaseReplay ends a claim as if it had never been.
func (c *Client) ReleaseReplay(ctx context.Context, s idempotency.Scope, token idempotency.Token) error {
	body := replayBody(s)
	body.Token = &token
	return c.do(ctx, post(body, "replays", "release"), nil)
}

// LookupReplay finds the record of a key and, if its run has ended, the
// response.
func (c *Client) LookupReplay(ctx context.Context, s idempotency.Scope) (idempotency.Record, *idempotency.Response, error) {
	answer, err := ask[struct {
		Record   idempotency.Record
		Response *idempotency.Response
	}](ctx, c, post(replayBody(s), "replays", "lookup"))
	return answer.Record, answer.Response, err
}

// RecentReplays finds the records replayed last. Max is 1 to 1000, or 0 for
// 100.
func (c *Client) RecentReplays(ctx context.Context, q idempotency.Query) ([]idempotency.Record, error) {
	answer, err := ask[struct{ Replays []idempotency.Record }](ctx, c, get(Page{Max: q.Max}.values("everyone", flag(q.Everyone), "entity", entityOf(q.Tenant)), "replays"))
	return answer.Replays, err
}

// ReplayStats returns the counters of a tenant or of everyone.
func (c *Client) ReplayStats(ctx context.Context, q idempotency.Query) (idempotency.Stats, error) {
	return ask[idempotency.Stats](ctx, c, get(values("everyone", flag(q.Everyone), "entity", entityOf(q.Tenant)), "replays", "stats"))
}

// ForgetReplay deletes the record of a key, whatever its state, so that the
// next request with it runs.
func (c *Client) ForgetReplay(ctx context.Context, s idempotency.Scope) error {
	return c.do(ctx, post(replayBody(s), "replays", "forget"), nil)
}

// SettleReplay decides what a crashed run counts as: with a response, as
// done; with nil, as never run.
func (c *Client) SettleReplay(ctx context.Context, s idempotency.Scope, r *idempotency.Response) error {
	body := replayBody(s)
	body.Response = r
	return c.do(ctx, post(body, "replays", "settle"), nil)
}
