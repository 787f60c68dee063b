package examples_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
)

// The policy would be a file. Keys stand in it as hashes: printf %s KEY | sha256sum
const plans = `
version: 1
default_tier: free
tiers:
  free: {limits: {requests: 1/minute}}
  pro: {limits: {requests: 1000/minute}}
limits:
  requests: {per: caller}
identity:
  keys:
    - {name: ann, sha256: 4a8c1eb8b2bbb2493bdc9ee3f7a3357b048de54a2dbc52301e88c39403cd6ce8}
    - {name: bob, tier: pro, sha256: 3a0d31885b0a3ca5152d2898eecb50ac564b9bf83709917edfd6e11a2c52a90b}
`

// By API key, with two tiers.
func Example_byKeyWithTwoTiers() {
	p, err := policy.Parse("policy.yaml", []byte(plans)) // or policy.Load
	if err != nil {
		log.Fatal(err)
	}
	store, err := memory.Open(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	gate, err := httplimit.Open(context.Background(), httplimit.Config{Limiter: sluice.New(store), Policy: p})
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close()
	server := httptest.NewServer(gate.Wrap(http.NotFoundHandler()))
	defer server.Close()

	for _, key := range []string{"ann's key", "ann's key", "bob's key", "bob's key", "made up"} {
		r, err := http.NewRequest(http.MethodGet, server.URL, nil)
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("X-API-Key", key)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		response.Body.Close()
		fmt.Println(key, response.StatusCode)
	}
	// Output:
	// ann's key 404
	// ann's key 429
	// bob's key 404
	// bob's key 404
	// made up 401
}
