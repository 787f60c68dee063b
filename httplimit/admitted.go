package httplimit

import (
	"context"
	"slices"

	"github.com/sluice-go/sluice"
)

// Handlers behind a gate that answer repeated writes with stored responses
// need to know who is calling, and that a replay costs less than a first run.
// So requests that the policy's section "idempotency" is about carry their
// call, and so do all of them if its section "upstream" names a header.

type admittedKey struct{}

func withCall(ctx context.Context, c *Call) context.Context {
	return context.WithValue(ctx, admittedKey{}, c)
}

// Admitted returns the call of a request that the policy's section "idempotency"
// or "upstream" is about, while it is served behind [Gate.Wrap]; else nil.
func Admitted(ctx context.Context) *Call {
	c, _ := ctx.Value(admittedKey{}).(*Call)
	return c
}

// Waive lets the call cost at most so much in each limit. The rest is given
// back when the response is done.
func (c *Call) Waive(most sluice.Amount) { c.waived, c.most = true, most.Thousandths() }

// waivedCosts are what a call with a lease costs at most, given what was told
// about it. They are settled in one step, so that nothing is given back twice.
func (c *Call) waivedCosts(told []sluice.LimitCost) []sluice.LimitCost {
	costs := slices.Clone(told)
	for i := range costs {
		costs[i].Cost = sluice.Thousandths(min(costs[i].Cost.Thousandths(), c.most))
	}
	for i, r := range c.Decision.Results {
		d := &c.Decision.Demands[i]
		if r.Consumed.Thousandths() <= c.most || d.Limit.Algorithm == sluice.Concurrency ||
			slices.ContainsFunc(costs, func(l sluice.LimitCost) bool { return l.Limit == d.Key.Limit }) {
			continue
		}
		costs = append(costs, sluice.LimitCost{Limit: d.Key.Limit, Cost: sluice.Thousandths(c.most)})
	}
	return costs
}

// waive gives back what a call without a lease took and is not to cost.
func (g *Gate) waive(ctx context.Context, c *Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	var refunds []sluice.Demand
	for i, r := range c.Decision.Results {
		if r.Consumed.Thousandths() > c.most && c.Decision.Demands[i].Limit.Algorithm != sluice.Concurrency {
			refund := c.Decision.Demands[i]
			refund.Cost = sluice.Thousandths(c.most - r.Consumed.Thousandths())
			refunds = append(refunds, refund)
		}
	}
	if len(refunds) == 0 {
		return
	}
	if _, err := g.config.Limiter.Adjust(ctx, refunds...); err != nil {
		g.config.Log.WarnContext(ctx, "tokens were not refunded", "error", err)
	}
}
