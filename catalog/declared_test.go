package catalog_test

import (
	"encoding/json"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

// Whoever asks about a key of the file by its name gets the limits of its tier,
// as its requests do, with a catalog and without.
func TestTiersOfKeys(t *testing.T) {
	tier := func(rule string) catalog.TierDeclaration {
		return catalog.TierDeclaration{Limits: catalog.Limits{"rpm": {Limit: sluice.MustParse(rule)}}}
	}
	file := &catalog.Declaration{
		Tiers:       map[string]catalog.TierDeclaration{"free": tier("10/minute"), "pro": tier("100/minute")},
		KeyTiers:    map[string]string{"key:ci": "pro"},
		DefaultTier: "free", AnonymousTier: "free",
	}
	for _, resolver := range []catalog.Resolver{family(t).c, &catalog.Declared{}} {
		for entity, want := range map[string]string{"key:ci": "pro", "key:other": "free", "ip:192.0.2.1": "free"} {
			r, err := resolver.Resolve(t.Context(), catalog.Subject{Namespace: catalog.DefaultNamespace, Entity: entity, Resource: "api", File: file})
			if err != nil {
				t.Fatal(err)
			}
			if r.Tier != want || r.Applied[0].Setting != file.Tiers[want].Limits["rpm"] {
				t.Errorf("%T: %s has tier %q and %+v, want those of %s", resolver, entity, r.Tier, r.Applied, want)
			}
		}
	}
}

// TestUnlimitedIsStoredInNumbers, which versions before the word can read.
func TestUnlimitedIsStoredInNumbers(t *testing.T) {
	text, err := catalog.StoredSetting(catalog.Setting{Limit: sluice.Unlimited, OnUnavailable: sluice.Deny})
	if err != nil || string(text) != `{"limit":"1000000000000/us","on_unavailable":"deny"}` {
		t.Error(string(text), err)
	}
	for _, written := range []string{string(text), `{"limit":"unlimited","on_unavailable":"deny"}`} {
		s, err := catalog.ReadSetting([]byte(written))
		if err != nil || s.Limit != sluice.Unlimited || s.OnUnavailable != sluice.Deny {
			t.Errorf("%s: %v, %v", written, s, err)
		}
	}
	shown, err := json.Marshal(catalog.Setting{Limit: sluice.Unlimited, OnUnavailable: sluice.Deny})
	if err != nil || string(shown) != `{"rule":"unlimited","onUnavailable":"deny"}` {
		t.Error(string(shown), err)
	}
}
