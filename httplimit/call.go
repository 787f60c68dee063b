package httplimit

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/policy"
)

// Request is a request to decide.
type Request struct {
	Method string
	Path   string // as sent, with its escapes: [net/url.URL.EscapedPath]
	Header http.Header
	Remote string // host and port of the connection

	// Entity is who is calling, if that is known before, and Tier their tier.
	// If Entity is empty, headers and address tell.
	Entity, Tier string
}

// Outcome is the result of deciding a request.
type Outcome uint8

const (
	// Unlimited requests pass because no limit applies to them.
	Unlimited Outcome = iota
	// Exempt requests pass because the policy exempts them, whoever sends them.
	Exempt
	// Allowlisted requests pass because the caller is on the allow list.
	Allowlisted
	// Allowed requests pass because all limits have room, or allow requests
	// while the store is away.
	Allowed
	// Shadowed requests pass because the limits that have no room are
	// shadows.
	Shadowed
	// Refused requests are over a limit.
	Refused
	// Unauthenticated requests carry an invalid credential.
	Unauthenticated
	// Denylisted requests come from a caller on the deny list.
	Denylisted
	// Forbidden requests lack a scope that the endpoint requires.
	Forbidden
	// Banned requests come from a caller that is banned for a while.
	Banned
	// Unavailable requests could not be decided.
	Unavailable
)

func (o Outcome) String() string {
	return [...]string{
		"unlimited", "exempt", "allowlisted", "allowed", "shadowed",
		"refused", "unauthenticated", "denylisted", "forbidden", "banned", "unavailable",
	}[o]
}

// Passes reports whether the request may proceed.
func (o Outcome) Passes() bool { return o <= Shadowed }

// Call is a request and what was decided about it. The zero Call is ready; it
// can be used again and then keeps its memory.
type Call struct {
	Outcome  Outcome
	Policy   *policy.Policy
	Route    *policy.Route
	Tier     string // of the caller, as it counts; "" if nobody had to know
	Identity identity.Identity

	// Decision is the answer to the take, if there was one.
	Decision sluice.Decision

	// Labels name the limits of Decision.Demands, by index.
	Labels []string

	// RetryAfter is when to try again, jitter included; 0 if that makes no
	// difference, or [sluice.Never].
	RetryAfter time.Duration

	// Err is why the outcome is Unauthenticated or Unavailable, or why limits
	// that allow requests while the store is away were not asked.
	Err error

	waived bool // it is to cost at most this
	most   int64

	found []*catalog.Resolution // by group of sets

	take sluice.Take
	buf  []byte
	ends []headerValue
	text string // of the last RateLimit

	values   []string // not used yet
	quotas   []quota
	policies string // of the quotas, for RateLimit-Policy
}

// reset keeps the memory. It goes field by field, which is quicker than to
// write over the whole.
func (c *Call) reset() {
	c.waived, c.most = false, 0
	c.Outcome, c.RetryAfter, c.Err, c.Tier = Unlimited, 0, nil, ""
	c.Labels, c.buf, c.ends, c.found = c.Labels[:0], c.buf[:0], c.ends[:0], c.found[:0]
	t := &c.take
	t.Demands, t.ID, t.Asked, t.Keep, t.Lease, t.Peek, t.Tier = t.Demands[:0], "", "", 0, false, false, ""
	d := &c.Decision
	d.Allowed, d.Granted, d.RetryAfter, d.Decider = false, sluice.Amount{}, 0, 0
	d.Source, d.Repeated, d.ID, d.Time, d.Taken = sluice.FromStore, false, "", time.Time{}, time.Time{}
	d.Demands, d.Results = nil, d.Results[:0]
}

// Decide decides a request. If the outcome is Allowed and the decision has an
// ID, that is a lease, which has to be settled.
func (g *Gate) Decide(ctx context.Context, r *Request, c *Call) {
	c.reset()
	g.judge(ctx, r, c)
	if g.config.Decided != nil {
		g.config.Decided(c)
	}
}

// judge decides a request, or says what would be decided if the take is a peek.
func (g *Gate) judge(ctx context.Context, r *Request, c *Call) {
	v := g.view.Load()
	c.Policy = v.policy
	c.Route = v.policy.Match(r.Method, r.Path)
	if c.Route.Exempt {
		c.Outcome = Exempt
		if c.Route.Idempotency != nil {
			g.exempted(ctx, v, r, c)
		} else {
			c.Identity = identity.Identity{} // of an earlier request
		}
		return
	}
	if err := v.identify(ctx, r, &c.Identity); err != nil {
		g.unidentified(ctx, r, c, err)
		return
	}
	if listed(&v.policy.Deny, &c.Identity) {
		c.Outcome = Denylisted
		return
	}
	if len(c.missingScopes()) > 0 {
		c.Outcome = Forbidden
		return
	}
	if listed(&v.policy.Allow, &c.Identity) {
		c.Outcome = Allowlisted
		return
	}
	if !g.asks(ctx, r, c) {
		return
	}
	if g.config.Abuse != nil {
		g.emergency(c)
	}
	if len(c.take.Demands) > 0 {
		c.lease()
		g.decide(ctx, c)
	}
	g.note(r, c)
}

// asks finds what the request has to take, and reports whether there is
// anything left to decide.
func (g *Gate) asks(ctx context.Context, r *Request, c *Call) bool {
	err := g.look(ctx, c)
	if err == nil {
		if g.config.Abuse != nil && g.banned(c) {
			return false
		}
		err = g.demand(ctx, r, c)
	}
	if err != nil {
		c.Outcome, c.Err, c.RetryAfter = Unavailable, err, time.Second
	}
	return err == nil
}

// note tells those who watch of a request that was decided.
func (g *Gate) note(r *Request, c *Call) {
	if c.take.Peek {
		return
	}
	if g.config.Abuse != nil {
		g.seen(c)
	}
	if c.Outcome == Refused {
		g.config.Audit.note(r, c)
	}
}

// exempted identifies who sends a request that is not limited, where replays
// have to be told apart by caller. A credential that is not valid is for
// somebody else to judge.
func (g *Gate) exempted(ctx context.Context, v *view, r *Request, c *Call) {
	err := v.identify(ctx, r, &c.Identity)
	var invalid *identity.InvalidError
	if err != nil && !errors.As(err, &invalid) {
		c.Outcome, c.Err, c.RetryAfter = Unavailable, err, time.Second
		g.config.Log.ErrorContext(ctx, "credentials cannot be checked", "error", err)
	}
}

// listed reports whether somebody is on a list, by any name.
func listed(l *policy.List, id *identity.Identity) bool {
	return !l.Empty() && isOn(l, id)
}

// isOn is listed for a list with somebody on it; most have nobody.
func isOn(l *policy.List, id *identity.Identity) bool {
	return l.HasEntity(id.Entity) || id.Key != "" && l.HasEntity(id.Key) || l.HasAddress(id.Client)
}

// decide asks the limiter and says what follows.
func (g *Gate) decide(ctx context.Context, c *Call) {
	if err := g.config.Limiter.Decide(ctx, &c.take, &c.Decision); err != nil {
		g.undecided(ctx, c, err)
		return
	}
	if c.Decision.Allowed {
		c.Outcome = Allowed
		for i := range c.Decision.Results {
			if !c.Decision.Results[i].Fits && c.Decision.Demands[i].Shadow {
				c.Outcome = Shadowed
			}
		}
		return
	}
	c.Outcome = Refused
	c.RetryAfter = jittered(c.Decision.RetryAfter, c.Policy.Headers.RetryAfterJitter)
}

// undecided follows the demands' OnUnavailable after an error. A store behind
// package failover has done so before and gives no error.
func (g *Gate) undecided(ctx context.Context, c *Call, err error) {
	c.Decision = sluice.Decision{Results: c.Decision.Results[:0]}
	c.Outcome = Allowed
	if errors.Is(err, sluice.ErrUnavailable) || errors.Is(err, sluice.ErrUnknown) {
		for i := range c.take.Demands {
			if c.take.Demands[i].OnUnavailable != sluice.Allow && !c.take.Demands[i].Shadow {
				c.Outcome = Unavailable
			}
		}
	} else {
		c.Outcome = Unavailable
	}
	c.Err, c.RetryAfter = err, time.Second
	if ctx.Err() == nil {
		g.config.Log.ErrorContext(ctx, "request not decided", "endpoint", c.Route.Endpoint, "passed", c.Outcome.Passes(), "error", err)
	}
}
