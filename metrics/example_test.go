package metrics_test

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/metrics"
)

func ExampleTakes() {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	takes := metrics.NewTakes()
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(takes, metrics.Memory(store))
	limiter := sluice.New(store, sluice.WithObserver(takes))

	for range 3 {
		if _, err := limiter.Take(context.Background(), sluice.Demand{
			Key: sluice.Key{Entity: "alice", Resource: "mail", Limit: "rpm"}, Limit: sluice.MustParse("2/minute"),
		}); err != nil {
			log.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "sluice_refusals_total" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output: sluice_refusals_total 1
}
