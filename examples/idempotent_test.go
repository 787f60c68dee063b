package examples_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/sluice-go/sluice/idempotency"
)

// An idempotent POST: sent again with the same Idempotency-Key, it gets the
// first response and does not run.
func Example_idempotentPost() {
	store, err := idempotency.NewMemory(idempotency.MemoryConfig{})
	if err != nil {
		log.Fatal(err)
	}
	keeper, err := idempotency.New(idempotency.Config{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer keeper.Close()
	orders := &idempotency.Route{Name: "/orders", Required: true, Tenant: func(r *http.Request) string { return "ann" }}
	if err := orders.Prepare(); err != nil {
		log.Fatal(err)
	}
	made := 0
	h := keeper.Handler(func(*http.Request) *idempotency.Route { return orders },
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			made++
			fmt.Fprintf(w, "order %d", made)
		}))
	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("an apple"))
		r.Header.Set("Idempotency-Key", `"8e03978e"`)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Body)
	}
	// Output:
	// order 1
	// order 1
}
