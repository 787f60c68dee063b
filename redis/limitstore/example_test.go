package limitstore_test

import (
	"context"
	"fmt"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
)

// It needs a server, so it is not run here.
func ExampleOpen() {
	ctx := context.Background()
	store, err := limitstore.Open(ctx, redis.Config{Address: "redis://localhost:6379"})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	limiter := sluice.New(store)
	d, err := limiter.Take(ctx, sluice.Demand{
		Key:   sluice.Key{Entity: "alice", Resource: "search", Limit: "rps"},
		Limit: sluice.MustParse("10/s burst 20"),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Allowed, d.Results[0].Remaining)
}
