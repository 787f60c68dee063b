package client_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server"
)

// serve is a server to ask, as `sluice serve` is one.
func serve() (url string, stop func()) {
	noon := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC) // it stays so, for the output
	store, err := memory.Open(memory.Config{Clock: func() time.Time { return noon }})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := server.Handler(server.Config{
		Limiter: sluice.New(store), Limits: map[string]sluice.Limit{"rpm": sluice.MustParse("2/hour")},
		Access: server.Access{Open: true}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	s := httptest.NewServer(handler)
	return s.URL, func() {
		s.Close()
		if err := store.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

func Example() {
	url, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		d, err := c.Take(ctx, client.Take{Entity: "alice", Resource: "chat"})
		if err != nil {
			log.Fatal(err) // nobody knows: the server gave no answer
		}
		demand, result := d.Deciding()
		fmt.Println(d.Allowed, demand.Key.Limit, result.Remaining)
	}
	// Output:
	// true rpm 1
	// true rpm 0
	// false rpm 0
}

// A lease is for work whose cost is known only afterwards.
func ExampleClient_Acquire() {
	url, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		log.Fatal(err)
	}
	lease, d, err := c.Acquire(ctx, client.Take{
		Entity: "alice", Resource: "chat", Cost: sluice.Tokens(500),
		Limits: map[string]sluice.Limit{"tpm": sluice.MustParse("1000/hour")},
	})
	if err != nil {
		log.Fatal(err)
	}
	if lease == nil {
		log.Fatal(d.Err())
	}
	// The answer took 320 tokens in the end.
	d, err = lease.Commit(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(320)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Results[0].Consumed, d.Results[0].Remaining)
	// Output:
	// -180 680
}
