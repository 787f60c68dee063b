package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
)

const examplePolicy = `
version: 1
limits:
  global: {per: caller, limit: 2/minute}
endpoints:
  complete: {match: POST /complete, settle: {requests: X-Tokens-Used}}
`

// exampleGate is what a program does once, at its start. One that follows its
// file uses policy.Watch instead of policy.Parse.
func exampleGate() (*httplimit.Gate, func()) {
	p, err := policy.Parse("policy.yaml", []byte(examplePolicy))
	if err != nil {
		log.Fatal(err)
	}
	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	gate, err := httplimit.Open(context.Background(), httplimit.Config{
		Limiter: sluice.New(store),
		Policy:  p,
	})
	if err != nil {
		log.Fatal(err)
	}
	return gate, func() {
		gate.Close()
		store.Close()
	}
}

// show asks a few times and prints what a client sees.
func show(h http.Handler) {
	s := httptest.NewServer(h)
	defer s.Close()
	for range 3 {
		response, err := http.Get(s.URL + "/hello")
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(response.StatusCode, response.Header.Get("RateLimit-Policy"))
	}
}

// The middleware before a handler of net/http.
func ExampleGate_Wrap() {
	gate, closeGate := exampleGate()
	defer closeGate()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })

	show(gate.Wrap(mux))
	// Output:
	// 200 "global";q=2;w=60
	// 200 "global";q=2;w=60
	// 429 "global";q=2;w=60
}

// The same in chi, and in whatever takes func(http.Handler) http.Handler.
func ExampleGate_Wrap_chi() {
	gate, closeGate := exampleGate()
	defer closeGate()

	r := chi.NewRouter()
	r.Use(gate.Wrap)
	r.Get("/hello", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })

	show(r)
	// Output:
	// 200 "global";q=2;w=60
	// 200 "global";q=2;w=60
	// 429 "global";q=2;w=60
}

// A handler that knows afterwards what a request has cost.
func ExampleSetCost() {
	gate, closeGate := exampleGate()
	defer closeGate()

	s := httptest.NewServer(gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "three words long")
		httplimit.SetCost(r.Context(), "requests", sluice.Tokens(3))
	})))
	defer s.Close()
	for range 2 {
		response, err := http.Post(s.URL+"/complete", "text/plain", nil)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(response.StatusCode)
	}
	// The first left a debt, which time repays.
	// Output:
	// 200
	// 429
}

// A client that never sends more than it may, however many processes share
// the store.
func ExampleTransport() {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	transport, err := httplimit.NewTransport(httplimit.TransportConfig{
		Limiter:  sluice.New(store),
		Upstream: "hubspot",
		Retries:  2,
		Demands: func(r *http.Request) []sluice.Demand {
			return []sluice.Demand{{
				Key:   sluice.Key{Resource: "hubspot", Limit: "rps"},
				Limit: sluice.MustParse("10/s burst 20"),
			}}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	defer api.Close()

	client := &http.Client{Transport: transport}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ctx = httplimit.WithPriority(ctx, sluice.Interactive) // somebody is watching
	r, err := http.NewRequestWithContext(ctx, "GET", api.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	fmt.Println(response.StatusCode)
	// Output: 200
}
