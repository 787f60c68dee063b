package failover

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
)

// Census counts the nodes that share a store. Each keeps a lease on a limit of
// concurrency in the store itself, and what is taken of that limit is the number of
// nodes. A node that dies is counted for [censusKeep] longer.
type Census struct {
	nodes   atomic.Int64
	cancel  context.CancelFunc
	stopped chan struct{}
}

const (
	censusEvery = 10 * time.Second
	censusKeep  = 3 * censusEvery
)

// present is what every node takes one of.
var present = sluice.Demand{
	Key:   sluice.Key{Namespace: "$sluice", Limit: "nodes"},
	Limit: sluice.Limit{Algorithm: sluice.Concurrency, Amount: sluice.Tokens(100_000)},
	Cost:  sluice.Tokens(1), Critical: true, OnUnavailable: sluice.Deny,
}

// Nodes returns the number of nodes when the store last told, at least 1. It is
// a [Config]'s Nodes.
func (c *Census) Nodes() int { return max(1, int(c.nodes.Load())) }

// Start begins to count, with this node, the nodes that share store.
func (c *Census) Start(store sluice.Store) {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.stopped = cancel, make(chan struct{})
	go c.count(ctx, sluice.New(store))
}

// Close takes this node out of the count. The store must still be open.
func (c *Census) Close() error {
	if c.cancel != nil { // started
		c.cancel()
		<-c.stopped
	}
	return nil
}

func (c *Census) count(ctx context.Context, l *sluice.Limiter) {
	defer close(c.stopped)
	ticker := time.NewTicker(censusEvery)
	defer ticker.Stop()
	var lease *sluice.Lease
	for {
		if lease == nil || lease.Renew(ctx, censusKeep) != nil {
			// One that could not be renewed may be alive, and then counts twice
			// until it expires: the parts of the nodes are smaller, never larger.
			lease, _, _ = l.Acquire(ctx, sluice.Take{Demands: []sluice.Demand{present}, Keep: censusKeep}) //nolint:errcheck // the next round tries again
		}
		if d, err := l.Peek(ctx, present); err == nil && d.Source == sluice.FromStore {
			c.nodes.Store(((present.Limit.Capacity().Thousandths() - d.Results[0].Remaining.Thousandths()) / sluice.Token))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if lease != nil {
				lease.Release(context.WithoutCancel(ctx)) //nolint:errcheck // then it expires
			}
			return
		}
	}
}
