package failover_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/memory"
)

func Example() {
	shared, err := memory.Open(memory.Config{}) // in production, a store that can be away
	if err != nil {
		log.Fatal(err)
	}
	quotas := failover.DefaultQuotas()
	quotas["partner"] = failover.Quota{Limit: sluice.Per(30, time.Minute)}
	store, err := failover.New(shared, failover.Config{Timeout: 100 * time.Millisecond, Quotas: quotas})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	take := sluice.Take{
		Tier: "partner",
		Demands: []sluice.Demand{{
			Key:           sluice.Key{Entity: "acme", Resource: "POST /orders", Limit: "rpm"},
			Limit:         sluice.Per(600, time.Minute),
			OnUnavailable: sluice.Degrade, // at most 30 a minute from this node
		}},
	}
	var d sluice.Decision
	if err := sluice.New(store).Decide(context.Background(), &take, &d); err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Allowed, "by", d.Source, "while", store.State())
	// Output: true by store while normal
}
