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
	if listed(&c.Policy.Deny, &c.Identity) {
		c.Outcome = Denied
		return
	}
	if !g.asks(ctx, r, c) {
		return
	}
	c.dropConcurrency() // it ends before it begins
	c.take.Demands = append(c.take.Demands, sluice.Demand{
		Key:   sluice.Key{Namespace: c.Policy.Namespace, Entity: c.Identity.Address, Resource: guessResource, Limit: "attempts"},
		Limit: g.config.Guesses, OnUnavailable: sluice.Allow,
	})
	c.Labels = append(c.Labels, guessLabel)
	g.decide(ctx, c)
	if c.Outcome.Passes() {
		c.Outcome, c.Err = Invalid, err
	}
	g.note(r, c)
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
