package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/gateway"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
)

// A gateway in front of an API, from start to end.
func Example() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer api.Close()

	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	p, err := policy.Parse("policy.yaml", []byte("version: 1\nlimits: {all: {per: ip, limit: 1/minute}}\n"))
	if err != nil {
		log.Fatal(err)
	}
	gate, err := httplimit.Open(context.Background(), httplimit.Config{Limiter: sluice.New(store), Policy: p})
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close()
	g, err := gateway.New(gateway.Config{Upstream: api.URL, Gate: gate})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- g.Serve(l) }()
	for range 2 {
		response, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Printf("%d %q\n", response.StatusCode, response.Header.Get("Retry-After"))
	}
	if err := g.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(<-done, http.ErrServerClosed))
	// Output:
	// 200 ""
	// 429 "60"
	// true
}
