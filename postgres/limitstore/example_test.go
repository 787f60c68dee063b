package limitstore_test

import (
	"context"
	"fmt"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
	"github.com/sluice-go/sluice/postgres/limitstore"
)

// It needs a server, so it is not run here.
func ExampleOpen() {
	ctx := context.Background()
	store, err := limitstore.Open(ctx, postgres.Config{Address: "postgres://app:secret@localhost/app"})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	limiter := sluice.New(store)
	d, err := limiter.Take(ctx, sluice.Demand{
		Key:   sluice.Key{Entity: "hubspot", Resource: "api", Limit: "rps"},
		Limit: sluice.MustParse("10/s burst 20"),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Allowed, d.Results[0].Remaining)
}
