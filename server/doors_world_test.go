package server_test

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/sqlite"
	"github.com/sluice-go/sluice/sqlite/catalogstore"
)

// dice draw what a question is about.
type dice struct{ *rand.Rand }

func (d dice) one(of ...string) string  { return of[d.IntN(len(of))] }
func (d dice) chance(percent int) bool  { return d.IntN(100) < percent }
func (d dice) rule() string             { return fmt.Sprintf("%d/%s", 1+d.IntN(6), d.one("minute", "hour", "day")) }
func (d dice) limits() catalog.Limits   { return limits(d.one("requests", "rpm"), d.rule()) }
func (d dice) maybe(s ...string) string { return d.one(append(s, "")...) }

// numbers are limits as a policy file has them.
func (d dice) numbers() string {
	switch {
	case d.chance(10):
		return "unlimited"
	case d.chance(25):
		return fmt.Sprintf("{rpm: %s, tpm: %s}", d.rule(), d.rule())
	}
	return d.rule()
}

// sets are the sets that a policy may have, and what they count by.
var sets = map[string]string{"mine": "caller", "people": "user", "machines": "key", "login": "ip", "tenants": "header:X-Tenant", "total": "everyone"}

var setNames = []string{"mine", "people", "machines", "login", "tenants", "total"}

// policy draws a policy file until there is one without mistakes. One in three
// has a single set, so that a take of it decides a request alone.
func (d dice) policy() *policy.Policy {
	some := 60
	only := ""
	if d.chance(33) {
		some, only = 0, d.one(setNames[:5]...)
	}
	for {
		p, err := policy.Parse("doors.yaml", []byte(d.file(some, only)))
		if err == nil {
			return p
		}
	}
}

func (d dice) file(some int, only string) string {
	var b strings.Builder
	b.WriteString("version: 1\n")
	byName := func(indent string) {
		for _, name := range setNames {
			if d.chance(30) && (only == "" || only == name) {
				fmt.Fprintf(&b, "%s%s: %s\n", indent, name, d.numbers())
			}
		}
	}
	if tiers := []string{"free", "pro"}[:d.IntN(3)]; len(tiers) > 0 {
		b.WriteString("tiers:\n")
		for _, name := range tiers {
			fmt.Fprintf(&b, "  %s:\n", name)
			if d.chance(50) {
				fmt.Fprintf(&b, "    default: %s\n", d.numbers())
			}
			b.WriteString("    limits:\n")
			byName("      ")
		}
		fmt.Fprintf(&b, "default_tier: %s\n", d.one(tiers...))
		if d.chance(50) {
			fmt.Fprintf(&b, "anonymous_tier: %s\n", d.one(tiers...))
		}
	}
	b.WriteString("limits:\n")
	for _, name := range setNames {
		if d.chance(some) || name == only {
			fmt.Fprintf(&b, "  %s: {per: '%s', shadow: %t", name, sets[name], d.chance(15))
			if d.chance(60) {
				fmt.Fprintf(&b, ", limit: %s", d.numbers())
			}
			if d.chance(40) {
				fmt.Fprintf(&b, ", match: %s", d.one("/a/**", "/b/Put"))
			}
			b.WriteString("}\n")
		}
	}
	if d.chance(40) {
		fmt.Fprintf(&b, "system: {limit: %s}\n", d.numbers())
	}
	fmt.Fprintf(&b, "endpoints: {put: {match: /b/Put, cost: %d}}\n", 1+d.IntN(2))
	b.WriteString("entities:\n  filed: {parent: team, cascade: true, default: " + d.numbers() + "}\n  team:\n    limits:\n")
	byName("      ")
	fmt.Fprintf(&b, "identity:\n  keys: [{name: static, sha256: %s, entity: %s", hexSum("static"), d.one("filed", "alice", "nobody"))
	if tier := d.maybe("free", "pro"); strings.Contains(b.String(), "  "+tier+":\n") && tier != "" {
		fmt.Fprintf(&b, ", tier: %s", tier)
	}
	b.WriteString("}]\n  address: {trusted_proxies: [127.0.0.1]}\n")
	return b.String()
}

// world is a policy and a catalog, with keys of those who may call.
type world struct {
	policy  *policy.Policy
	catalog *catalog.Catalog
	keys    map[string]catalog.Key // by key in clear
	clear   []string
	parents map[string]string // whom an entity cascades to
}

// world draws what is stored.
func (d dice) world(t *testing.T) *world {
	t.Helper()
	db := must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "doors.db")))(t)
	closes(t, db)
	w := &world{policy: d.policy(), keys: map[string]catalog.Key{}, parents: map[string]string{"filed": "team"}}
	config := catalog.Config{Store: catalogstore.New(db), Log: slog.New(slog.DiscardHandler)}
	if d.chance(30) {
		config.Default = d.limits()
	}
	w.catalog = must(catalog.Open(t.Context(), config))(t)
	closes(t, w.catalog)
	no := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	no(w.catalog.Declare(w.policy.Namespace, w.policy.Declared))
	edit := w.catalog.Edit(w.policy.Namespace, catalog.By{Actor: "doors", Reason: "a test"})
	tiers := []string{"gold"}
	_, err := edit.PutTier(t.Context(), catalog.Tier{Name: "gold"})
	no(err)
	tiers = append(tiers, slices.Sorted(maps.Keys(w.policy.Declared.Tiers))...)
	_, err = edit.CreateEntity(t.Context(), catalog.Entity{ID: "company", Tier: d.maybe(tiers...)})
	no(err)
	for _, id := range []string{"alice", "bob", "carol"} {
		if d.chance(70) {
			e := catalog.Entity{ID: id, Tier: d.maybe(tiers...), Parent: d.maybe("company")}
			e.Cascade = e.Parent != "" && d.chance(70)
			_, err := edit.CreateEntity(t.Context(), e)
			no(err)
			if e.Cascade {
				w.parents[id] = e.Parent
			}
		}
		k, clear, err := edit.CreateKey(t.Context(), catalog.Key{Entity: id, Tier: d.maybe(tiers...), Scopes: []string{"sluice:take"}})
		no(err)
		w.keys[clear] = k
		w.clear = append(w.clear, clear)
		if d.chance(25) {
			_, err := edit.SetOverride(t.Context(), catalog.Override{Entity: id, Limit: d.one("requests", "rpm"), Resource: d.maybe(setNames...),
				Setting: catalog.Setting{Limit: sluice.MustParse(d.rule())}, Until: time.Now().Add(time.Hour)})
			no(err)
		}
	}
	var scopes []catalog.Scope
	for range d.IntN(10) {
		s := catalog.Scope{Resource: d.maybe(setNames...)}
		switch d.IntN(3) {
		case 0:
			s.Entity = d.one("alice", "bob", "carol", "company", "filed", "key:static")
		case 1:
			s.Tier = d.one(tiers...)
		}
		if slices.Contains(scopes, s) {
			continue
		}
		scopes = append(scopes, s)
		_, err := edit.SetLimits(t.Context(), s, d.limits(), 0)
		no(err)
	}
	return w
}
