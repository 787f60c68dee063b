package catalogtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-go/sluice/catalog"
)

func resolveChecks() []Check {
	return []Check{{"one resolution reads all that decides", checkResolve}}
}

// resolve is what Resolve finds, each as kind:id/sub, sorted.
func (s *stage) resolve(entity, tier, resource string) []string {
	s.t.Helper()
	records, err := s.store.Resolve(s.ctx, catalog.ResolveQuery{Namespace: s.namespace, Entity: entity, Tier: tier, Resource: resource})
	if err != nil {
		s.t.Fatal(err)
	}
	var found []string
	for _, r := range records {
		if r.Namespace != s.namespace && r.Kind != catalog.KindNamespace {
			s.t.Errorf("a resolution in %s has %v", s.namespace, r.RecordKey)
		}
		stored := s.get(r.RecordKey)
		if stored.Version != r.Version || stored.Under != r.Under || stored.Tier != r.Tier || !sameJSON(stored.Data, r.Data) {
			s.t.Errorf("resolved %+v, stored %+v", r, stored)
		}
		id := r.ID
		if r.Kind == catalog.KindNamespace {
			id = "here"
			if r.ID != s.namespace {
				id = r.ID
			}
		}
		found = append(found, fmt.Sprintf("%s:%s/%s", r.Kind, id, r.Sub))
	}
	slices.Sort(found)
	return found
}

func checkResolve(t *testing.T, open Open) {
	s := newStage(t, open)
	wantIDs(t, "in an empty namespace", s.resolve("alice", "pro", "api"))

	o := s.other()
	for _, st := range []*stage{s, o} {
		r := func(kind catalog.Kind, id, sub, under, tier string) catalog.Record {
			return catalog.Record{RecordKey: st.key(kind, id, sub), Under: under, Tier: tier, Data: fmt.Appendf(nil, `{"of":%q}`, st.namespace)}
		}
		name := catalog.Record{RecordKey: catalog.RecordKey{Kind: catalog.KindNamespace, ID: st.namespace}, Data: []byte(`{}`)}
		st.put(name,
			r(catalog.KindEntity, "alice", "", "team", "pro"),
			r(catalog.KindEntity, "team", "", "company", ""),
			r(catalog.KindEntity, "company", "", "", "gold"),
			r(catalog.KindEntity, "bob", "", "team", "free"),
			r(catalog.KindSystemLimits, "", "", "", ""),
			r(catalog.KindResourceLimits, "api", "", "", ""),
			r(catalog.KindResourceLimits, "other", "", "", ""),
			r(catalog.KindTier, "pro", "", "", ""),
			r(catalog.KindTier, "free", "", "", ""),
			r(catalog.KindOverride, "alice", "rpm@", "", ""),
			r(catalog.KindOverride, "alice", "tpm@other", "other", ""),
			r(catalog.KindOverride, "team", "rpm@api", "api", ""),
			r(catalog.KindOverride, "bob", "rpm@", "", ""),
		)
		for _, sub := range []string{"", "api", "other"} {
			for _, id := range []string{"alice", "team", "bob", "ghost"} {
				st.put(r(catalog.KindEntityLimits, id, sub, sub, ""))
			}
			for _, id := range []string{"pro", "gold", "free"} {
				st.put(r(catalog.KindTierLimits, id, sub, sub, ""))
			}
		}
	}
	wantIDs(t, "alice",
		s.resolve("alice", "", "api"),
		"entity-limits:alice/", "entity-limits:alice/api", "entity-limits:team/", "entity-limits:team/api",
		"entity:alice/", "entity:company/", "entity:team/",
		"namespace:here/",
		"override:alice/rpm@", "override:alice/tpm@other", "override:team/rpm@api",
		"resource-limits:api/", "system-limits:/",
		"tier-limits:gold/", "tier-limits:gold/api", "tier-limits:pro/", "tier-limits:pro/api",
		"tier:pro/")
	wantIDs(t, "alice, with a tier of her token",
		s.resolve("alice", "free", ""),
		"entity-limits:alice/", "entity-limits:team/",
		"entity:alice/", "entity:company/", "entity:team/",
		"namespace:here/",
		"override:alice/rpm@", "override:alice/tpm@other", "override:team/rpm@api",
		"system-limits:/",
		"tier-limits:free/", "tier-limits:gold/", "tier-limits:pro/",
		"tier:free/", "tier:pro/")
	wantIDs(t, "an entity without a record",
		s.resolve("ghost", "free", "api"),
		"entity-limits:ghost/", "entity-limits:ghost/api",
		"namespace:here/", "resource-limits:api/", "system-limits:/",
		"tier-limits:free/", "tier-limits:free/api", "tier:free/")
	wantIDs(t, "nobody", s.resolve("", "", "api"), "namespace:here/", "resource-limits:api/", "system-limits:/")

	// However long the chain, and even if it is a circle, it ends.
	for i := range 2 * catalog.MaxDepth {
		r := s.record(fmt.Sprintf("d%02d", i))
		r.Under = fmt.Sprintf("d%02d", (i+1)%(2*catalog.MaxDepth))
		s.put(r)
	}
	records, err := s.store.Resolve(s.ctx, catalog.ResolveQuery{Namespace: s.namespace, Entity: "d00"})
	if err != nil {
		t.Fatal(err)
	}
	entities := 0
	for _, r := range records {
		if r.Kind == catalog.KindEntity {
			entities++
		}
	}
	if entities != catalog.MaxDepth {
		t.Errorf("%d entities of a long chain, want %d", entities, catalog.MaxDepth)
	}
}
