package limitstore_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/dynamodb/dynamodbtest"
	"github.com/sluice-go/sluice/dynamodb/limitstore"
	"github.com/sluice-go/sluice/storetest"
)

// nodes is a store that asks one of two nodes after the other, so that what a node
// remembers of an item is mostly untrue.
type nodes struct {
	all   [2]*limitstore.Store
	calls atomic.Int64
}

func (n *nodes) next() *limitstore.Store { return n.all[n.calls.Add(1)/2%2] } // two calls each

func (n *nodes) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	return n.next().Take(ctx, t, d)
}

func (n *nodes) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	return n.next().Adjust(ctx, changes, d)
}

func (n *nodes) Settle(ctx context.Context, s *sluice.Settlement, d *sluice.Decision) error {
	return n.next().Settle(ctx, s, d)
}

func (n *nodes) Reset(ctx context.Context, keys []sluice.Key) error { return n.next().Reset(ctx, keys) }

func (n *nodes) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	return n.next().Hold(ctx, requests, grants)
}

func (n *nodes) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	return n.next().Return(ctx, returns)
}

func (n *nodes) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	return n.next().List(ctx, q)
}

func (n *nodes) Forget(ctx context.Context, f sluice.Forgetting) (string, error) {
	return n.next().Forget(ctx, f)
}

func (n *nodes) Capabilities() sluice.Capabilities { return n.all[0].Capabilities() }

func (n *nodes) Close() error { return errors.Join(n.all[0].Close(), n.all[1].Close()) }

func TestConformanceOfTwoNodes(t *testing.T) {
	server := dynamodbtest.Start(t)
	storetest.Config{Steps: 1500}.Run(t, func(tb testing.TB, now func() time.Time) sluice.Store {
		config := dynamodb.Config{Address: server.Table(), Clock: now}
		return &nodes{all: [2]*limitstore.Store{open(tb, config), open(tb, config)}}
	})
}
