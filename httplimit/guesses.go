package httplimit

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/identity"
)

// guessLabel names the limit on invalid credentials.
const guessLabel = "invalid-credentials"

// unidentified answers a request whose credential is not valid, or could not
// be checked. The attempt is counted like a request of somebody unknown, and
// against a limit of its own, so that guessing is not free where the policy
// has no limit for it. Valid credentials from the same address still pass:
// one bad neighbour must not lock the others out.
func (g *Gate) unidentified(ctx context.Context, r *Request, c *Call, err error) {
	c.Err = err
	var invalid *identity.InvalidError
	if !errors.As(err, &invalid) {
		c.Outcome, c.RetryAfter = Unavailable, time.Second
		g.config.Log.ErrorContext(ctx, "credentials cannot be checked", "error", err)
		return
	}
	if !c.take.Peek {
		g.failed(ctx, invalid, c.Identity.Address)
	}
	if listed(&c.Policy.Deny, &c.Identity) {
		c.Outcome = Denylisted
		return
	}
	if !g.asks(ctx, r, c) {
		return
	}
	c.dropConcurrency() // it ends before it begins
	c.take.Demands = append(c.take.Demands, g.guess(c.Policy.Namespace, c.Identity.Address))
	c.Labels = append(c.Labels, guessLabel)
	g.decide(ctx, c)
	if c.Outcome.Passes() {
		c.Outcome, c.Err = Unauthenticated, err
	}
	g.note(r, c)
}

// failed notes a credential that is not valid.
func (g *Gate) failed(ctx context.Context, err *identity.InvalidError, address string) {
	kind := "key"
	if err.Kind == identity.ByToken {
		kind = "token"
	}
	g.config.Logins.Failed(ctx, kind, err.Reason, address)
}

// Identify finds out who sends a request, as [Gate.Decide] does, and takes
// nothing. An invalid credential is an error and counts as a guess.
func (g *Gate) Identify(ctx context.Context, r *Request) (identity.Identity, error) {
	var id identity.Identity
	err := g.view.Load().identify(ctx, r, &id)
	var invalid *identity.InvalidError
	if errors.As(err, &invalid) {
		g.failed(ctx, invalid, id.Address)
		if refused := g.Guess(ctx, id.Address, 1); refused != nil {
			err = refused
		}
	}
	return id, err
}

// Guess counts n invalid credentials that an entity has tried, and returns a
// [*sluice.RefusedError] if that is more than [Config.Guesses] allows. With 0
// it counts nothing and reports whether there is room for another.
func (g *Gate) Guess(ctx context.Context, entity string, n int64) error {
	d := g.guess(g.Policy().Namespace, entity)
	d.Cost = sluice.Tokens(n)
	take := sluice.Take{Demands: []sluice.Demand{d}, Peek: n == 0}
	var decision sluice.Decision
	if err := g.config.Limiter.Decide(ctx, &take, &decision); err != nil {
		return err
	}
	return decision.Err()
}

func (g *Gate) guess(namespace, entity string) sluice.Demand {
	return sluice.Demand{
		Key:   sluice.Key{Namespace: namespace, Entity: entity, Resource: guessResource, Limit: "attempts"},
		Limit: g.config.Guesses, OnUnavailable: sluice.Allow,
	}
}

// dropConcurrency leaves out limits that need a lease.
func (c *Call) dropConcurrency() {
	kept := 0
	for i := range c.take.Demands {
		if c.take.Demands[i].Limit.Algorithm != sluice.Concurrency {
			c.take.Demands[kept], c.Labels[kept] = c.take.Demands[i], c.Labels[i]
			kept++
		}
	}
	c.take.Demands, c.Labels = c.take.Demands[:kept], c.Labels[:kept]
}
