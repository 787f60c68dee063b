package idempotency_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sluice-go/sluice/idempotency"
)

func ExampleKeeper_Handler() {
	store, err := idempotency.NewMemory(idempotency.MemoryConfig{}) // in production, one that all processes share
	if err != nil {
		log.Fatal(err)
	}
	keeper, err := idempotency.New(idempotency.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer keeper.Close()

	orders := &idempotency.Route{
		Name:     "/orders",
		Required: true,
		Tenant:   func(r *http.Request) string { return r.Header.Get("X-Account") }, // as it was authenticated
	}
	if err := orders.Prepare(); err != nil {
		log.Fatal(err)
	}
	made := 0
	h := keeper.Handler(
		func(*http.Request) *idempotency.Route { return orders },
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			made++
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, "order %d", made)
		}),
	)
	for _, item := range []string{"apple", "apple", "pear"} {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(item))
		r.Header.Set("Idempotency-Key", `"8e03978e"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Printf("%d replay=%t made=%d\n", w.Code, w.Header().Get("Idempotent-Replay") == "true", made)
	}
	// Output:
	// 201 replay=false made=1
	// 201 replay=true made=1
	// 422 replay=false made=1
}

func ExampleSend() {
	store, err := idempotency.NewMemory(idempotency.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	keeper, err := idempotency.New(idempotency.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer keeper.Close()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Println("received")
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()

	for range 2 {
		d, err := idempotency.Send(context.Background(), keeper, idempotency.Call{
			Tenant: "acme", Name: "order.created", Key: "order-17",
			URL: receiver.URL, Body: []byte(`{"order":17}`),
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Status, "sent before:", d.Replayed)
	}
	// Output:
	// received
	// 204 sent before: false
	// 204 sent before: true
}
