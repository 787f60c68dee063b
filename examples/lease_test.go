package examples_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

// A lease settled afterwards: an estimate is taken before, and the real cost
// charged when it is known.
func Example_leaseSettledAfterwards() {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter := sluice.New(store)
	ctx := context.Background()

	lease, d, err := limiter.Acquire(ctx, sluice.Take{Demands: []sluice.Demand{{
		Key:   sluice.Key{Entity: "ann", Limit: "words"},
		Limit: sluice.MustParse("5k/day fixed"),
		Cost:  sluice.Tokens(1000), // the estimate
	}}})
	if err != nil {
		log.Fatal(err)
	}
	if lease == nil {
		log.Fatal(d.Err())
	}
	fmt.Println("meanwhile:", d.Results[0].Remaining)

	d, err = lease.Commit(ctx, sluice.LimitCost{Limit: "words", Cost: sluice.Tokens(730)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("settled:", d.Results[0].Remaining)
	// Output:
	// meanwhile: 4000
	// settled: 4270
}
