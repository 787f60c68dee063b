package client

import (
	"context"
	"errors"
	"time"

	"github.com/sluice-go/sluice"
)

// Lease is a take that can still be changed. It lives in the server's store,
// so anyone can settle it by its ID. Exactly one of Commit and Release should
// end it; if neither comes, it expires: tokens stay spent, concurrency is
// freed, and later calls answer sluice.ErrLeaseClosed.
type Lease struct {
	ID     string // "" if everything is unlimited; then there is nothing to settle
	client *Client
}

// Acquire takes at once and gives a lease. A refusal is no error: the lease
// is nil and the decision says why.
func (c *Client) Acquire(ctx context.Context, t Take) (*Lease, sluice.Decision, error) {
	return c.acquire(ctx, &t, nil)
}

// WaitAcquire is like Acquire but waits in line, as [Client.Wait] does.
func (c *Client) WaitAcquire(ctx context.Context, t Take) (*Lease, sluice.Decision, error) {
	lease, d, err := c.acquire(ctx, &t, func(b *takeJSON) { b.Wait = t.patience(ctx).String() })
	if err == nil {
		err = d.Err()
	}
	return lease, d, err
}

func (c *Client) acquire(ctx context.Context, t *Take, set func(*takeJSON)) (*Lease, sluice.Decision, error) {
	d, id, err := c.decide(ctx, t, "leases", set)
	if err != nil || !d.Allowed {
		return nil, d, err
	}
	return c.Lease(id), d, nil
}

// Lease returns the lease with that id, which somebody else may have acquired. It
// asks nobody; a wrong id shows when it is used.
func (c *Client) Lease(id string) *Lease { return &Lease{ID: id, client: c} }

// settle is what a lease is changed to.
type settlement struct {
	Costs map[string]sluice.Amount `json:"costs,omitempty"`
	Keep  string                   `json:"keep,omitempty"`
}

func settlementOf(costs []sluice.LimitCost) settlement {
	s := settlement{}
	for _, c := range costs {
		if s.Costs == nil {
			s.Costs = map[string]sluice.Amount{}
		}
		s.Costs[c.Limit] = c.Cost
	}
	return s
}

func (le *Lease) settle(ctx context.Context, r call) (sluice.Decision, error) {
	if le.ID == "" {
		return sluice.Decision{Allowed: true}, nil
	}
	answer, err := ask[decisionJSON](ctx, le.client, r)
	if err != nil {
		return sluice.Decision{}, err
	}
	return answer.decision(le.client.namespace, nil)
}

// Adjust sets what the lease costs in the limits named. It says the whole
// cost, not the difference, so it may be repeated. It may leave a debt.
func (le *Lease) Adjust(ctx context.Context, costs ...sluice.LimitCost) (sluice.Decision, error) {
	return le.settle(ctx, call{method: "PATCH", path: at("leases", le.ID), body: settlementOf(costs)})
}

// Renew lets the lease live for keep from now on.
func (le *Lease) Renew(ctx context.Context, keep time.Duration) error {
	_, err := le.settle(ctx, call{method: "PATCH", path: at("leases", le.ID), body: settlement{Keep: keep.String()}})
	return err
}

// Commit ends the lease: its tokens stay spent, adjusted to costs if any are
// given; its concurrency is freed.
func (le *Lease) Commit(ctx context.Context, costs ...sluice.LimitCost) (sluice.Decision, error) {
	return le.settle(ctx, post(settlementOf(costs), "leases", le.ID, "commit"))
}

// Release ends the lease as if it had never been.
func (le *Lease) Release(ctx context.Context) error {
	_, err := le.settle(ctx, remove(0, nil, "leases", le.ID))
	return err
}

// Do runs work under a lease: committed if work succeeds, released if it
// fails or panics. A refusal is a *sluice.RefusedError and work does not run.
// While work runs it may adjust, and it may settle the lease itself.
func (c *Client) Do(ctx context.Context, t Take, work func(context.Context, *Lease) error) error {
	lease, d, err := c.Acquire(ctx, t)
	if err != nil {
		return err
	}
	if lease == nil {
		return d.Err()
	}
	after := context.WithoutCancel(ctx)
	done := false
	defer func() {
		if !done { // work panicked, or called runtime.Goexit
			lease.Release(after) //nolint:errcheck // the panic matters more, and the lease expires by itself
		}
	}()
	workErr := work(ctx, lease)
	done = true
	if workErr != nil {
		err = lease.Release(after)
	} else {
		_, err = lease.Commit(after)
	}
	if errors.Is(err, sluice.ErrLeaseClosed) {
		err = nil // settled by work itself
	}
	return errors.Join(workErr, err)
}
