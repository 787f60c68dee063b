package onredis

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-go/sluice/bench/contest"
)

// openRedisRate gives each caller a connection, so that nobody waits for one.
func openRedisRate(address string, l limit) (*side, error) {
	client := redis.NewClient(&redis.Options{Addr: address, PoolSize: l.callers})
	limiter := redis_rate.NewLimiter(client)
	rule := redis_rate.Limit{Rate: 1, Period: l.every, Burst: l.burst}
	ctx := context.Background()
	take := func(key string) (bool, error) {
		r, err := limiter.Allow(ctx, key, rule)
		if err != nil {
			return false, err
		}
		return r.Allowed > 0, nil
	}
	return &side{
		caller: func() contest.Take { return take },
		close:  func() { client.Close() }, //nolint:errcheck // its server ends with it
	}, nil
}
