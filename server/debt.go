package server

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/excerpt"
)

// What was used is charged although it does not fit, and that leaves a debt.
// A key that acts for its own entity may run into debt once, by at most what a
// take can cost, and then has to repay it first. Otherwise it could lock out
// whoever shares a parent with it for as long as it likes.

// charging lets the keys of an entity charge one at a time in this process, so
// that none overlooks the debt of another.
type charging [64]chan struct{}

var chargingSeed = maphash.MakeSeed()

func newCharging() (c charging) {
	for i := range c {
		c[i] = make(chan struct{}, 1)
	}
	return c
}

// enter waits until a caller may charge, and returns what ends that.
func (c *charging) enter(ctx context.Context, who *caller) (leave func(), err error) {
	if !who.own {
		return func() {}, nil
	}
	turn := c[maphash.String(chargingSeed, who.namespace+"/"+who.entity)%uint64(len(c))]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// debtError says which limit must be repaid first.
type debtError struct{ sluice.RefusedError }

func (e *debtError) Error() string {
	which := "a limit"
	if !e.Demand.Unannounced {
		which = fmt.Sprintf("%s of %s", excerpt.Of(e.Demand.Key.Limit), excerpt.Of(e.Demand.Key.Entity))
	}
	return fmt.Sprintf("%s is in debt, so nothing was changed: try again in %s", which, e.RetryAfter.Round(time.Millisecond))
}

func (e *debtError) Unwrap() error { return &e.RefusedError }

// solvent returns a [*debtError] if a bucket is in debt. What cannot be known is
// for the charge itself to find out.
func (s *server) solvent(ctx context.Context, demands []sluice.Demand) error {
	var asked []sluice.Demand
	for _, d := range demands {
		if d.Limit.Algorithm != sluice.Concurrency && !d.Shadow {
			d.Cost = sluice.Thousandths(1)
			asked = append(asked, d)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	now, err := s.limiter.Peek(ctx, asked...)
	if err != nil {
		return err
	}
	var worst *debtError
	for i := range now.Results {
		r := &now.Results[i]
		if !r.Unknown && r.Remaining.Thousandths() < 0 && (worst == nil || r.RetryAfter > worst.RetryAfter) {
			worst = &debtError{sluice.RefusedError{Demand: asked[i], RetryAfter: r.RetryAfter}}
		}
	}
	if worst == nil {
		return nil
	}
	return worst
}

// mayRaise refuses costs of a lease that would deepen a debt. A lease tells what
// it first cost. If it was lowered since, whether a cost raises it shows only
// afterwards; then it ends with what it cost before, so that this cannot be
// repeated.
func (s *server) mayRaise(r *http.Request, c *caller, namespace string, id string, costs []sluice.LimitCost) error {
	if !c.own || len(costs) == 0 {
		return nil
	}
	taken, err := s.limiter.Settle(r.Context(), sluice.Settlement{ID: id, Action: sluice.Adjust}) // changes nothing
	if err != nil {
		return err
	}
	if err := c.mayCharge(taken.Demands, costs); err != nil {
		return err
	}
	var charged []sluice.Demand
	above := false
	for i := range taken.Demands {
		for _, cost := range costs {
			if d := &taken.Demands[i]; d.Key.Limit == cost.Limit {
				charged, above = append(charged, *d), above || cost.Cost.Compare(d.Cost) > 0
			}
		}
	}
	debt := s.solvent(r.Context(), charged)
	var owed *debtError
	if !errors.As(debt, &owed) {
		return debt
	}
	if !above {
		changed, err := s.limiter.Settle(r.Context(), sluice.Settlement{ID: id, Action: sluice.Adjust, Costs: costs})
		before, raised := asBefore(&changed)
		if err != nil || !raised {
			return err
		}
		if _, err := s.limiter.Settle(r.Context(), sluice.Settlement{ID: id, Action: sluice.Commit, Costs: before}); err != nil {
			return err
		}
	}
	only := []sluice.Demand{owed.Demand}
	if err := s.markUnannounced(r, c, namespace, only); err != nil {
		return err
	}
	owed.Demand = only[0]
	return owed
}

// asBefore returns what a lease cost before it was changed, and reports whether
// it was raised.
func asBefore(changed *sluice.Decision) (costs []sluice.LimitCost, raised bool) {
	seen := map[string]bool{}
	for i := range changed.Results {
		d, by := &changed.Demands[i], changed.Results[i].Consumed
		if by.Thousandths() == 0 || seen[d.Key.Limit] {
			continue
		}
		seen[d.Key.Limit] = true
		raised = raised || by.Thousandths() > 0
		costs = append(costs, sluice.LimitCost{Limit: d.Key.Limit, Cost: sluice.Thousandths(d.Cost.Thousandths() - by.Thousandths())})
	}
	return costs, raised
}
