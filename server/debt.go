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

// mayRaise refuses costs of a lease that would deepen a debt.
func (s *server) mayRaise(r *http.Request, c *caller, namespace string, id string, costs []sluice.LimitCost) error {
	if !c.own || len(costs) == 0 {
		return nil
	}
	now, err := s.limiter.Settle(r.Context(), sluice.Settlement{ID: id, Action: sluice.Adjust}) // changes nothing
	if err != nil {
		return err
	}
	if err := c.mayCharge(now.Demands, costs); err != nil {
		return err
	}
	var raised []sluice.Demand
	for i := range now.Demands {
		for _, cost := range costs {
			if d := &now.Demands[i]; d.Key.Limit == cost.Limit && cost.Cost.Compare(d.Cost) > 0 {
				raised = append(raised, *d)
			}
		}
	}
	err = s.solvent(r.Context(), raised)
	var owed *debtError
	if !errors.As(err, &owed) {
		return err
	}
	only := []sluice.Demand{owed.Demand}
	if err := s.markUnannounced(r, c, namespace, only); err != nil {
		return err
	}
	owed.Demand = only[0]
	return owed
}
