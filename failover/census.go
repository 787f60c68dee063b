package failover

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
)

// Census counts and names the nodes that share a store. Each node keeps a lease
// in the store on two concurrency limits: one for all nodes, whose use is their
// number, and one for its name. A node that dies is counted for [censusKeep]
// longer.
type Census struct {
	// Name is the name of this node. It must be set before Start. Several nodes
	// may have the same name.
	Name string

	nodes   atomic.Int64
	known   atomic.Pointer[[]Node]
	cancel  context.CancelFunc
	stopped chan struct{}
}

const (
	censusEvery = 10 * time.Second
	censusKeep  = 3 * censusEvery
)

// Node is a node that shares the store.
type Node struct {
	Name  string
	Heard time.Time // when it last said that it is there, by the store's clock
}

// present is what every node takes one of.
var present = sluice.Demand{
	Key:   sluice.Key{Namespace: "$sluice", Entity: "nodes", Resource: "nodes", Limit: "*"},
	Limit: sluice.Limit{Algorithm: sluice.Concurrency, Amount: sluice.Tokens(100_000)},
	Cost:  sluice.Tokens(1), Critical: true, OnUnavailable: sluice.Deny,
}

// Nodes returns the number of nodes that the store last reported, at least 1. It is
// a [Config]'s Nodes.
func (c *Census) Nodes() int { return max(1, int(c.nodes.Load())) }

// Known returns the nodes that the store last reported, sorted by name, however
// long ago that was. A store that cannot list its buckets reports none, and
// Redis at most 254.
func (c *Census) Known() []Node {
	if known := c.known.Load(); known != nil {
		return *known
	}
	return nil
}

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

// announce returns the lease of this node, or nil if the next round has to try again.
func (c *Census) announce(ctx context.Context, l *sluice.Limiter) *sluice.Lease {
	named := present
	named.Key.Limit = c.Name
	lease, _, err := l.Acquire(ctx, sluice.Take{Demands: []sluice.Demand{present, named}, Keep: censusKeep})
	if err != nil && !errors.Is(err, sluice.ErrUnknown) { // there are too many names, perhaps
		lease, _, _ = l.Acquire(ctx, sluice.Take{Demands: []sluice.Demand{present}, Keep: censusKeep}) //nolint:errcheck // see above
	}
	return lease
}

// list notes which nodes there are.
func (c *Census) list(ctx context.Context, l *sluice.Limiter) {
	page, err := l.List(ctx, sluice.Query{Namespace: present.Key.Namespace, Entity: present.Key.Entity, Resource: present.Key.Resource, Max: 1000})
	if err != nil {
		return
	}
	var known []Node
	for i := range page.Buckets {
		if b := &page.Buckets[i]; b.Key.Limit != present.Key.Limit && b.Remaining != present.Limit.Capacity() {
			known = append(known, Node{Name: b.Key.Limit, Heard: page.Time.Add(b.Reset - censusKeep)})
		}
	}
	slices.SortFunc(known, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	c.known.Store(&known)
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
			lease = c.announce(ctx, l)
		}
		if d, err := l.Peek(ctx, present); err == nil && d.Source == sluice.FromStore {
			c.nodes.Store(((present.Limit.Capacity().Thousandths() - d.Results[0].Remaining.Thousandths()) / sluice.Token))
		}
		c.list(ctx, l)
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
