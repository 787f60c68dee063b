package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit"
)

// behindCatalog is a middleware by a policy and a catalog, and the key of a
// caller that is stored with a parent.
func behindCatalog(t testing.TB, text string) (http.Handler, string) {
	t.Helper()
	c := catalogOf(t)
	p := parse(t, text)
	declare(t, c, p)
	edit := c.Edit(p.Namespace, catalog.By{Actor: "test"})
	if err := edit.CreateNamespace(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	for _, e := range []catalog.Entity{{ID: "team"}, {ID: "dev", Parent: "team", Cascade: true, Tier: "pro"}} {
		if _, err := edit.CreateEntity(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	_, key, err := edit.CreateKey(t.Context(), catalog.Key{Entity: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	g := gate(t, text, func(config *httplimit.Config) { use(config, c) })
	return g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), key
}

func TestAWarmCatalogCostsNoMemory(t *testing.T) {
	h, key := behindCatalog(t, noHeaders)
	w, r := &sink{h: http.Header{}}, request(t, key)
	// The name of the key is put together.
	if n := testing.AllocsPerRun(200, func() { h.ServeHTTP(w, r) }); n > 1 && countAllocations {
		t.Errorf("%v allocations, want 1", n)
	}
}

func BenchmarkMiddlewareWithCatalog(b *testing.B) {
	h, key := behindCatalog(b, noHeaders)
	w, r := &sink{h: http.Header{}}, request(b, key)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
