package httplimit_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/sqlite"
)

// catalogOf is a catalog in a file.
func catalogOf(t *testing.T) *catalog.Catalog {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	c, err := catalog.Open(t.Context(), catalog.Config{Store: db.Catalog(), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// behind serves what passes a gate by the policy and the catalog.
func behind(t *testing.T, text string, c *catalog.Catalog) string {
	t.Helper()
	return serve(t, gate(t, text, func(config *httplimit.Config) { config.UseCatalog(c) }).Wrap(http.HandlerFunc(hello))).URL
}

const tiered = `
version: 1
tiers:
  free: {default: 3/hour}
  enterprise: {default: unlimited}
default_tier: free
anonymous_tier: enterprise
limits:
  mine: {per: caller}
  login: {per: ip, limit: 10/hour}
  total: {per: everyone, limit: 100/hour}
headers: {send: [ietf]}
`

// TestATiersDefaultIsForCallersAlone: with a catalog and without, what a tier
// has by default neither hides nor replaces the limits of addresses and of
// everyone together.
func TestATiersDefaultIsForCallersAlone(t *testing.T) {
	p := parse(t, tiered)
	c := catalogOf(t)
	if err := c.Declare(p.Namespace, p.Declaration("test")); err != nil {
		t.Fatal(err)
	}
	want := `"login";q=10;w=3600, "total";q=100;w=3600`
	for name, url := range map[string]string{
		"without": serve(t, gate(t, tiered).Wrap(http.HandlerFunc(hello))).URL, "with": behind(t, tiered, c),
	} {
		if got := ask(t, url, "GET", "/").Header.Get("RateLimit-Policy"); got != want {
			t.Errorf("%s a catalog: %s, want %s", name, got, want)
		}
	}
}

// TestLimitsThatAreNotDeclaredYetCount: at a reload the catalog and the gate
// do not learn of a policy at the same moment.
func TestLimitsThatAreNotDeclaredYetCount(t *testing.T) {
	url := behind(t, tiered, catalogOf(t))
	if got := ask(t, url, "GET", "/").Header.Get("RateLimit-Policy"); !strings.Contains(got, `"login";q=10`) {
		t.Errorf("%q", got)
	}
}

func TestAStoredLimitOfConcurrency(t *testing.T) {
	url, edit := stored(t)
	_, key, err := edit.CreateKey(t.Context(), catalog.Key{Entity: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	limits := catalog.Limits{"requests": {Limit: sluice.Per(50, time.Hour)}, "running": {Limit: sluice.Limit{Algorithm: sluice.Concurrency, Amount: 2 * sluice.Token}}}
	if _, err := edit.SetLimits(t.Context(), catalog.Scope{Entity: "dev", Resource: "global"}, limits, 0); err != nil {
		t.Fatal(err)
	}
	for range 5 { // one after the other
		if a := ask(t, url, "GET", "/", "X-API-Key", key); a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
}

func TestAStoredShadowLimitBlocksNobody(t *testing.T) {
	url, edit := stored(t)
	_, key, err := edit.CreateKey(t.Context(), catalog.Key{Entity: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	limits := catalog.Limits{policy.DefaultLimit: {Limit: sluice.Per(1, time.Hour), Shadow: true}}
	if _, err := edit.SetLimits(t.Context(), catalog.Scope{Entity: "dev", Resource: "global"}, limits, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if a := ask(t, url, "GET", "/", "X-API-Key", key); a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
}
