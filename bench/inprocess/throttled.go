package inprocess

import (
	"context"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"github.com/sluice-go/sluice/bench/contest"
)

// openThrottled uses the store without a bound on keys: the bounded one is an
// LRU list behind one mutex, which is slower and larger.
func openThrottled(l limit, _ int) (*instance, error) {
	store, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(1, l.Every), MaxBurst: l.Burst - 1,
	})
	if err != nil {
		return nil, err
	}
	limiter.SetMaxCASAttemptsLimit(1_000_000) // by default a contended key is an error
	ctx := context.Background()
	take := func(key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited, err
	}
	return &instance{caller: func() contest.Take { return take }, close: func() {}}, nil
}
