package inprocess

import (
	"context"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/sluice-go/sluice/bench/contest"
)

func openUlule(l limit, _ int) (*instance, error) { return ulule(l, 24*time.Hour) }

func openUluleExpiring(l limit, _ int) (*instance, error) { return ulule(l, l.Window) }

func ulule(l limit, cleanUp time.Duration) (*instance, error) {
	store := memory.NewStoreWithOptions(limiter.StoreOptions{CleanUpInterval: cleanUp})
	lim := limiter.New(store, limiter.Rate{Period: l.Window, Limit: int64(l.Burst)})
	ctx := context.Background()
	take := func(key string) (bool, error) {
		c, err := lim.Get(ctx, key)
		return !c.Reached, err
	}
	return &instance{caller: func() contest.Take { return take }, close: func() {}}, nil
}
