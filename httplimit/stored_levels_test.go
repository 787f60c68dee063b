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
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

// catalogOf is a catalog in a file.
func catalogOf(t testing.TB) *catalog.Catalog {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	c, err := catalog.Open(t.Context(), catalog.Config{Store: catalogstore.New(db), Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// use makes what is stored in a catalog count.
func use(config *httplimit.Config, c *catalog.Catalog) {
	config.Resolver, config.Verify = c, httplimit.Keys(c)
}

// declare makes the tiers of a policy known to those who edit the catalog.
func declare(t testing.TB, c *catalog.Catalog, p *policy.Policy) {
	t.Helper()
	if err := c.Declare(p.Namespace, p.Declared); err != nil {
		t.Fatal(err)
	}
}

// behind serves what passes a gate by the policy and the catalog.
func behind(t *testing.T, text string, c *catalog.Catalog) string {
	t.Helper()
	return serve(t, gate(t, text, func(config *httplimit.Config) { use(config, c) }).Wrap(http.HandlerFunc(hello))).URL
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
	c := catalogOf(t)
	want := `"login";q=10;w=3600, "total";q=100;w=3600`
	for name, url := range map[string]string{
		"without": serve(t, gate(t, tiered).Wrap(http.HandlerFunc(hello))).URL, "with": behind(t, tiered, c),
	} {
		if got := ask(t, url, "GET", "/").Header.Get("RateLimit-Policy"); got != want {
			t.Errorf("%s a catalog: %s, want %s", name, got, want)
		}
	}
}

func TestAStoredLimitOfConcurrency(t *testing.T) {
	url, edit := stored(t)
	_, key, err := edit.CreateKey(t.Context(), catalog.Key{Entity: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	limits := catalog.Limits{"requests": {Limit: sluice.Per(50, time.Hour)}, "running": {Limit: sluice.Limit{Algorithm: sluice.Concurrency, Amount: sluice.Tokens(2)}}}
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
	limits := catalog.Limits{catalog.DefaultLimit: {Limit: sluice.Per(1, time.Hour), Shadow: true}}
	if _, err := edit.SetLimits(t.Context(), catalog.Scope{Entity: "dev", Resource: "global"}, limits, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if a := ask(t, url, "GET", "/", "X-API-Key", key); a.StatusCode != 200 {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
}

// TestAPolicyThatCannotBeUsedChangesNothing: as long as the old one decides,
// its namespace's keys and limits count, and no other's.
func TestAPolicyThatCannotBeUsedChangesNothing(t *testing.T) {
	c := catalogOf(t)
	text := func(namespace, more string) string {
		return "version: 1\nnamespace: " + namespace + "\nlimits: {all: {limit: 10/hour}}\nheaders: {send: [ietf]}\n" + more
	}
	two := parse(t, text("two", "identity: {jwt: {algorithms: [HS256], secret_file: /nowhere/secret}}"))
	keys := map[string]string{}
	for _, namespace := range []string{"one", "two"} {
		edit := c.Edit(namespace, catalog.By{Actor: "test"})
		if err := edit.CreateNamespace(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		_, key, err := edit.CreateKey(t.Context(), catalog.Key{Entity: "dev"})
		if err != nil {
			t.Fatal(err)
		}
		keys[namespace] = key
		limits := catalog.Limits{catalog.DefaultLimit: {Limit: sluice.Per(map[string]int64{"one": 20, "two": 30}[namespace], time.Hour)}}
		if _, err := edit.SetLimits(t.Context(), catalog.Scope{Entity: "dev"}, limits, 0); err != nil {
			t.Fatal(err)
		}
	}
	g := gate(t, text("one", ""), func(config *httplimit.Config) { use(config, c) })
	url := serve(t, g.Wrap(http.HandlerFunc(hello))).URL
	if err := g.Use(two); err == nil {
		t.Error("a policy without its secret is used")
	}
	if a := ask(t, url, "GET", "/", "X-API-Key", keys["one"]); a.StatusCode != 200 || !strings.Contains(a.Header.Get("RateLimit-Policy"), "q=20;") {
		t.Errorf("its own key: %d %v", a.StatusCode, a.Header)
	}
	if a := ask(t, url, "GET", "/", "X-API-Key", keys["two"]); a.StatusCode != 401 {
		t.Errorf("a key of another namespace: %d %v", a.StatusCode, a.Header)
	}
}

// TestATierThatOnlyTheCatalogHas counts if it is the key's, as it does if it
// is its owner's, even if there are no limits for it. Who has none has the
// default tier.
func TestATierThatOnlyTheCatalogHas(t *testing.T) {
	c := catalogOf(t)
	text := `
version: 1
tiers: {free: {limits: {global: 5/hour}}, pro: {limits: {global: 1000/hour}}}
default_tier: pro
limits: {global: {limit: 7/hour}}
headers: {send: [ietf]}
`
	p := parse(t, text)
	declare(t, c, p)
	edit := c.Edit(p.Namespace, catalog.By{Actor: "test"})
	if _, err := edit.PutTier(t.Context(), catalog.Tier{Name: "trial"}); err != nil {
		t.Fatal(err)
	}
	if _, err := edit.PutTier(t.Context(), catalog.Tier{Name: "bare"}); err != nil {
		t.Fatal(err)
	}
	limits := catalog.Limits{catalog.DefaultLimit: {Limit: sluice.Per(3, time.Hour)}}
	if _, err := edit.SetLimits(t.Context(), catalog.Scope{Tier: "trial", Resource: "global"}, limits, 0); err != nil {
		t.Fatal(err)
	}
	url := behind(t, text, c)
	for tier, want := range map[string]string{"trial": "q=3;", "bare": "q=7;", "free": "q=5;", "": "q=1000;"} {
		_, key, err := edit.CreateKey(t.Context(), catalog.Key{Entity: "of-" + tier, Tier: tier})
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(t, url, "GET", "/", "X-API-Key", key).Header.Get("RateLimit-Policy"); !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", tier, got, want)
		}
	}
}

// TestACallerWhoseNameCannotBeStored has what is stored for everybody of its
// tier, not what the file says instead.
func TestACallerWhoseNameCannotBeStored(t *testing.T) {
	c := catalogOf(t)
	text := `
version: 1
tiers: {free: {limits: {global: 1000/hour}}}
limits: {global: {}}
headers: {send: [ietf]}
identity: {keys: [{name: odd, sha256: ` + hash("odd") + `, entity: "\u0001 ", tier: free}]}
`
	p := parse(t, text)
	declare(t, c, p)
	limits := catalog.Limits{catalog.DefaultLimit: {Limit: sluice.Per(3, time.Hour)}}
	if _, err := c.Edit(p.Namespace, catalog.By{Actor: "test"}).SetLimits(t.Context(), catalog.Scope{Tier: "free", Resource: "global"}, limits, 0); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, behind(t, text, c), "GET", "/", "X-API-Key", "odd").Header.Get("RateLimit-Policy"); !strings.Contains(got, "q=3;") {
		t.Errorf("%s, want q=3", got)
	}
}
