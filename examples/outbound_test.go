package examples_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
)

// Calling somebody else's API: requests wait for their turn, and heed what the
// API says about its limits.
func Example_callingSomebodyElsesAPI() {
	store, err := memory.Open(memory.Config{}) // on Redis, all processes share the limit
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	transport, err := httplimit.NewTransport(httplimit.TransportConfig{
		Limiter:  sluice.New(store),
		Upstream: "weather",
		Retries:  2,
		Demands: func(*http.Request) []sluice.Demand {
			return []sluice.Demand{{Key: sluice.Key{Resource: "weather"}, Limit: sluice.MustParse("50/s burst 2")}}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	weather := httptest.NewServer(httplimit.PerIP("50/s burst 2")(http.NotFoundHandler()))
	defer weather.Close()

	client := &http.Client{Transport: transport}
	for range 4 {
		response, err := client.Get(weather.URL)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(response.StatusCode)
	}
	// Output:
	// 404
	// 404
	// 404
	// 404
}
