package examples_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

// Concurrency: at most two at once, and a place is free again when the work is
// done.
func Example_concurrency() {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter := sluice.New(store)

	reports := sluice.Take{Demands: []sluice.Demand{{
		Key: sluice.Key{Entity: "ann", Resource: "reports"}, Limit: sluice.MustParse("2 concurrent"),
	}}}
	var nested func(depth int) error
	nested = func(depth int) error {
		return limiter.Do(context.Background(), reports, func(context.Context, *sluice.Lease) error {
			fmt.Println("report", depth)
			return nested(depth + 1)
		})
	}
	fmt.Println(nested(1) != nil, "for the third")
	d, err := limiter.Peek(context.Background(), reports.Demands...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Results[0].Remaining, "places free")
	// Output:
	// report 1
	// report 2
	// true for the third
	// 2 places free
}
