package examples_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

// Waiting with priority: people go before batch work, and nobody waits beyond
// a deadline.
func Example_waitingWithPriority() {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter := sluice.New(store)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	mails := []sluice.Demand{{Key: sluice.Key{Resource: "mails"}, Limit: sluice.MustParse("50/s burst 1")}}
	var waiting sync.WaitGroup
	for _, priority := range []sluice.Priority{sluice.Batch, sluice.Normal, sluice.Interactive} {
		waiting.Go(func() {
			if _, err := limiter.Wait(ctx, sluice.Take{Priority: priority, Demands: mails}); err != nil {
				log.Print(err) // a *sluice.RefusedError at the deadline: what it waited for
			}
		})
	}
	waiting.Wait()
	fmt.Println("all were served, 20 ms apart")
	// Output: all were served, 20 ms apart
}
