package identity_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/sluice-go/sluice/identity"
)

// Whoever connects from a trusted proxy is known by what that proxy says;
// what others claim is ignored.
func Example() {
	i, err := identity.Open(context.Background(), identity.Config{
		Address: identity.Address{TrustedProxies: []string{"10.0.0.0/8"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	header := http.Header{"X-Forwarded-For": {"1.1.1.1, 203.0.113.7"}}
	for _, remote := range []string{"10.0.0.1:4711", "198.51.100.9:4711"} {
		var id identity.Identity
		if err := i.Identify(context.Background(), header, remote, &id); err != nil {
			log.Fatal(err)
		}
		fmt.Println(id.Entity)
	}
	// Output:
	// ip:203.0.113.7
	// ip:198.51.100.9
}
