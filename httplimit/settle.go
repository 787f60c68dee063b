package httplimit

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/policy"
)

const (
	// leaseKeep is how long a lease outlives a node that is gone; one that
	// serves a request renews it.
	leaseKeep = time.Minute
	// settleTimeout bounds what is done after a response. It does not end
	// with the request, whose client may have gone.
	settleTimeout = time.Second
)

// settlement is a lease that a request holds, and what it is known to cost.
type settlement struct {
	gate  *Gate
	lease *sluice.Lease
	rules []policy.Settle
	renew *time.Timer

	mu    sync.Mutex
	costs []sluice.LimitCost
	ended bool
}

// hold keeps the lease of an allowed call alive until it is settled.
func (g *Gate) hold(ctx context.Context, c *Call) *settlement {
	s := &settlement{gate: g, lease: g.config.Limiter.Lease(c.Decision.ID), rules: c.Route.Settle}
	ctx = context.WithoutCancel(ctx)
	s.renew = time.AfterFunc(leaseKeep/2, func() { s.extend(ctx) })
	return s
}

// extend renews the lease of a request that takes long.
func (s *settlement) extend(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := s.lease.Renew(ctx, leaseKeep); err != nil {
		s.gate.config.Log.WarnContext(ctx, "lease not renewed", "error", err)
		if errors.Is(err, sluice.ErrLeaseClosed) {
			return // there is nothing left to renew
		}
	}
	s.renew.Reset(leaseKeep / 2)
}

// cost sets what the request costs in a limit. The last word counts.
func (s *settlement) cost(limit string, cost int64) bool {
	if cost < 0 || cost > sluice.MaxThousandths {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	for i := range s.costs {
		if s.costs[i].Limit == limit {
			s.costs[i].Cost = sluice.Thousandths(cost)
			return true
		}
	}
	if len(s.costs) == sluice.MaxDemands {
		return false
	}
	s.costs = append(s.costs, sluice.LimitCost{Limit: limit, Cost: sluice.Thousandths(cost)})
	return true
}

// end stops renewing and tells what was said about costs.
func (s *settlement) end() []sluice.LimitCost {
	s.renew.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	return s.costs
}

// commit ends the lease at its real cost, or at what c is to cost at most.
func (s *settlement) commit(ctx context.Context, c *Call) {
	costs := s.end()
	if c.waived {
		costs = c.waivedCosts(costs)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if _, err := s.lease.Commit(ctx, costs...); err != nil {
		s.gate.config.Log.WarnContext(ctx, "lease not settled", "error", err)
	}
}

// broken gives back what a call has taken, unless its handler broke the
// response off on purpose, and panics on with what was recovered. That is nil
// if the goroutine just ends. s is nil if there is no lease.
func (g *Gate) broken(ctx context.Context, c *Call, s *settlement, reason any) {
	aborted := false
	if err, ok := reason.(error); ok {
		aborted = errors.Is(err, http.ErrAbortHandler)
	}
	switch {
	case aborted && s != nil:
		s.commit(ctx, c)
	case aborted:
	default:
		if s != nil {
			s.end()
		}
		g.giveBack(ctx, c)
	}
	if reason != nil {
		panic(reason)
	}
}

// giveBack undoes what an allowed call has taken.
func (g *Gate) giveBack(ctx context.Context, c *Call) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	var err error
	if c.Decision.ID != "" {
		err = g.config.Limiter.Lease(c.Decision.ID).Release(ctx)
	} else {
		refunds := make([]sluice.Demand, 0, len(c.Decision.Results))
		for i, r := range c.Decision.Results {
			if r.Consumed.Thousandths() > 0 {
				refund := c.Decision.Demands[i]
				refund.Cost = sluice.Thousandths(-r.Consumed.Thousandths())
				refunds = append(refunds, refund)
			}
		}
		if len(refunds) > 0 {
			_, err = g.config.Limiter.Adjust(ctx, refunds...)
		}
	}
	if err != nil {
		g.config.Log.WarnContext(ctx, "tokens were not refunded", "error", err)
	}
}

// Hold is for callers that serve an allowed call by other means than
// [Gate.Wrap]. They serve it with the context, in which [SetCost] works, and
// say at the end whether it was served: if not, what it took is given back.
func (g *Gate) Hold(ctx context.Context, c *Call) (held context.Context, end func(served bool)) {
	if !c.Outcome.Passes() || c.Decision.ID == "" {
		return ctx, func(served bool) {
			if !served && c.Outcome.Passes() {
				g.giveBack(ctx, c)
			}
		}
	}
	s := g.hold(ctx, c)
	return withSettlement(ctx, s), func(served bool) {
		if served {
			s.commit(ctx, c)
			return
		}
		s.end()
		g.giveBack(ctx, c)
	}
}

type settlementKey struct{}

func withSettlement(ctx context.Context, s *settlement) context.Context {
	return context.WithValue(ctx, settlementKey{}, s)
}

// SetCost sets what the request that ctx belongs to really costs in a limit,
// by the limit's name in the policy. It is charged when the response is done
// and may leave a debt. The last call counts. It returns false, and changes
// nothing, unless the policy settles the endpoint's cost afterwards
// ("settle") and the request is still running.
func SetCost(ctx context.Context, limit string, cost sluice.Amount) bool {
	s, ok := ctx.Value(settlementKey{}).(*settlement)
	return ok && s.cost(limit, cost.Thousandths())
}
