package httplimit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// stored is a gate on a catalog in a file, with the sample policy.
func stored(t *testing.T) (url string, edit *catalog.Editor) {
	t.Helper()
	c := catalogOf(t)
	p := parse(t, sample)
	edit = c.Edit(p.Namespace, catalog.By{Actor: "test"})
	if err := edit.CreateNamespace(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	declare(t, c, p)
	return behind(t, sample, c), edit
}

func TestKeysTiersAndLimitsFromTheCatalog(t *testing.T) {
	url, edit := stored(t)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := edit.CreateEntity(t.Context(), catalog.Entity{ID: "team"})
	check(err)
	_, err = edit.SetLimits(t.Context(), catalog.Scope{Entity: "team", Resource: "global"}, catalog.Limits{catalog.DefaultLimit: {Limit: sluice.Per(40, time.Hour)}}, 0)
	check(err)
	dev, err := edit.CreateEntity(t.Context(), catalog.Entity{ID: "dev", Parent: "team", Cascade: true, Tier: "free"})
	check(err)
	_, key, err := edit.CreateKey(t.Context(), catalog.Key{Entity: "dev"})
	check(err)

	a := ask(t, url, "GET", "/", "X-API-Key", key)
	if got := a.Header.Get("RateLimit-Policy"); got != `"global";q=5;w=3600, "team/global";q=40;w=3600, "address";q=50;w=60` {
		t.Errorf("free, in a team: %d %s %s", a.StatusCode, got, a.body)
	}
	// An upgrade counts from the next request on.
	dev.Tier = "pro"
	_, err = edit.UpdateEntity(t.Context(), dev)
	check(err)
	a = ask(t, url, "GET", "/", "X-API-Key", key)
	if got := a.Header.Get("RateLimit-Policy"); !strings.Contains(got, `"global";q=1000;w=3600`) {
		t.Errorf("after the upgrade: %s", got)
	}
	// The entity's own numbers beat those of its tier, at the set's cost.
	_, err = edit.SetLimits(t.Context(), catalog.Scope{Entity: "dev", Resource: "search"}, catalog.Limits{catalog.DefaultLimit: {Limit: sluice.Per(7, time.Minute)}}, 0)
	check(err)
	a = ask(t, url, "POST", "/search", "X-API-Key", key)
	if got := a.Header.Get("RateLimit"); !strings.Contains(got, `"search";r=4;`) {
		t.Errorf("own numbers: %s", got)
	}
	ask(t, url, "POST", "/search", "X-API-Key", key)
	if a = ask(t, url, "POST", "/search", "X-API-Key", key); a.StatusCode != 429 || !slices.Equal(a.problem.Violated, []string{"search"}) || a.problem.Tier != "pro" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := ask(t, url, "GET", "/", "X-API-Key", key+"x"); a.StatusCode != 401 {
		t.Errorf("a wrong key: %d", a.StatusCode)
	}
	id := strings.Split(key, "_")[1]
	_, err = edit.RevokeKey(t.Context(), id)
	check(err)
	if a := ask(t, url, "GET", "/", "X-API-Key", key); a.StatusCode != 401 {
		t.Errorf("a revoked key: %d", a.StatusCode)
	}
	if a := ask(t, url, "GET", "/", "X-Forwarded-For", "203.0.113.44"); a.StatusCode != 200 || !strings.Contains(a.Header.Get("RateLimit-Policy"), `"global";q=5;w=3600`) {
		t.Errorf("somebody unknown: %d %v", a.StatusCode, a.Header)
	}
}
