package onredis

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"

	"github.com/sluice-go/sluice/bench/contest"
	"github.com/sluice-go/sluice/redis/limitstore"
)

// openSluice makes an opener of a store that combines takes or does not, for
// takes with as many limits as names are given. The namespace keeps the
// buckets of several such sides apart.
func openSluice(namespace string, combine bool, limits ...string) func(address string, l limit) (*side, error) {
	return func(address string, l limit) (*side, error) {
		store, err := limitstore.Open(context.Background(), redis.Config{
			Address: "redis://" + address, Separate: !combine, Timeout: 10 * time.Second,
		})
		if err != nil {
			return nil, err
		}
		var demands []sluice.Demand
		for _, name := range limits {
			demands = append(demands, sluice.Demand{
				Key:   sluice.Key{Namespace: namespace, Limit: name},
				Limit: sluice.Per(1, l.every).WithBurst(int64(l.burst)),
			})
		}
		return &side{caller: caller(store, demands), close: func() { store.Close() }}, nil //nolint:errcheck // its server ends with it
	}
}

func caller(store sluice.Store, demands []sluice.Demand) func() contest.Take {
	limiter := sluice.New(store)
	ctx := context.Background()
	return func() contest.Take {
		t := &sluice.Take{Demands: slices.Clone(demands)}
		d := &sluice.Decision{}
		return func(key string) (bool, error) {
			for i := range t.Demands {
				t.Demands[i].Key.Entity = key
			}
			err := limiter.Decide(ctx, t, d)
			return d.Allowed, err
		}
	}
}
