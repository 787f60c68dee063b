package httplimit_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit"
)

// counting counts what a resolver is asked.
type counting struct {
	catalog.Declared
	asked atomic.Int64
}

func (c *counting) Resolve(ctx context.Context, s catalog.Subject) (*catalog.Resolution, error) {
	c.asked.Add(1)
	return c.Declared.Resolve(ctx, s)
}

// TestOneLookUpForEachEntity: the sets that count the caller are looked up
// together, those that count its key, and those that count nobody in particular.
func TestOneLookUpForEachEntity(t *testing.T) {
	const text = `
version: 1
limits:
  one: {per: caller, limit: 100/s}
  two: {per: user, limit: 100/s}
  three: {per: caller, limit: {a: 100/s, b: 100/s}}
  key: {per: key, limit: 100/s}
  address: {per: ip, limit: 100/s}
  tenant: {per: 'header:X-Tenant', limit: 100/s}
  total: {per: everyone, limit: 100/s}
identity: {keys: [{name: k, sha256: `
	resolver := new(counting)
	g := gate(t, text+hash("secret")+"}]}\n", func(c *httplimit.Config) { c.Resolver = resolver })
	for key, want := range map[string]struct{ lookUps, limits int }{"secret": {3, 8}, "": {2, 6}} {
		header := http.Header{}
		if key != "" {
			header.Set("X-API-Key", key)
		}
		resolver.asked.Store(0)
		var c httplimit.Call
		g.Decide(t.Context(), &httplimit.Request{Method: "GET", Path: "/", Header: header, Remote: "192.0.2.1:1"}, &c)
		if n := resolver.asked.Load(); int(n) != want.lookUps || len(c.Decision.Results) != want.limits {
			t.Errorf("key %q: %d look-ups for %d limits, want %+v", key, n, len(c.Decision.Results), want)
		}
	}
}
