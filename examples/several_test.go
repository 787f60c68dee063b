package examples_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

// Several limits at once: all have room, or nothing is taken from any.
func Example_severalLimitsAtOnce() {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter := sluice.New(store)

	requests := sluice.Demand{Key: sluice.Key{Entity: "ann", Limit: "requests"}, Limit: sluice.MustParse("60/hour")}
	words := sluice.Demand{Key: sluice.Key{Entity: "ann", Limit: "words"}, Limit: sluice.MustParse("5k/hour"), Cost: sluice.Tokens(3000)}
	for range 2 {
		d, err := limiter.Take(context.Background(), requests, words)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Allowed, d.Results[0].Remaining, "requests and", d.Results[1].Remaining, "words left")
	}
	// Output:
	// true 59 requests and 2000 words left
	// false 59 requests and 2000 words left
}
