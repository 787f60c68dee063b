package inprocess

import (
	"context"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"

	"github.com/sluice-go/sluice/bench/contest"
)

func openGoLimiter(l limit, _ int) (*instance, error) {
	return goLimiter(memorystore.Config{
		Tokens: uint64(l.Burst), Interval: l.Window,
		SweepInterval: 24 * time.Hour, SweepMinTTL: 24 * time.Hour,
	})
}

func openGoLimiterExpiring(l limit, _ int) (*instance, error) {
	return goLimiter(memorystore.Config{
		Tokens: uint64(l.Burst), Interval: l.Window, SweepInterval: l.Window, SweepMinTTL: l.Window,
	})
}

func goLimiter(c memorystore.Config) (*instance, error) {
	store, err := memorystore.New(&c)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	take := func(key string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok, err
	}
	return &instance{
		caller: func() contest.Take { return take },
		close:  func() { store.Close(ctx) }, //nolint:errcheck // it is always nil
	}, nil
}
