package limitstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestCostsThatCannotBe settles a lease with costs that it cannot have. The
// errors name field, value and reason as those of every store do.
func TestCostsThatCannotBe(t *testing.T) {
	server := redistest.Start(t)
	l, ctx := sluice.New(open(t, redis.Config{Address: server.URL()})), context.Background()
	places := demand("a", "2 concurrent")
	places.Key.Limit = "places"
	lease, d, err := l.Acquire(ctx, sluice.Take{Demands: []sluice.Demand{demand("a", "10/h"), places}})
	if err != nil || lease == nil {
		t.Fatal(d, err)
	}
	for limit, want := range map[string]string{
		"nonsense": "the lease has no limit of this name",
		"places":   "concurrency cannot be adjusted",
	} {
		_, err := lease.Commit(ctx, sluice.LimitCost{Limit: limit, Cost: sluice.Tokens(2)})
		var field *sluice.FieldError
		if !errors.As(err, &field) || *field != (sluice.FieldError{Field: "lease.costs", Value: limit, Reason: want}) {
			t.Errorf("%s: %v", limit, err)
		}
	}
}
