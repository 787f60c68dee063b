package catalogtest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

func levelChecks() []Check {
	return []Check{
		{"levels: the most specific one wins as a whole", checkLevels},
		{"levels: what is stored beats the file", checkFile},
		{"levels: who has no tier has the file's default", checkDefaultTier},
		{"levels: nothing is stored about addresses and header values", checkAnonymous},
		{"cascade: the limits of ancestors, as far as it goes", checkCascade},
		{"overrides: this limit, until then", checkOverrides},
		{"other nodes hear of changes within a second", checkNodes},
		{"many who ask at once cause one read", checkStampede},
	}
}

func checkLevels(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.tier("pro")
	d.create(catalog.Entity{ID: "alice", Tier: "pro"})
	d.applies("nothing stored", "alice", "chat")
	for _, step := range []struct {
		scope catalog.Scope
		want  string
	}{
		{catalog.Scope{}, "system"},
		{catalog.Scope{Resource: "chat"}, "resource"},
		{catalog.Scope{Tier: "pro"}, "tier"},
		{catalog.Scope{Tier: "pro", Resource: "chat"}, "tier+resource"},
		{catalog.Scope{Entity: "alice"}, "entity"},
		{catalog.Scope{Entity: "alice", Resource: "chat"}, "entity+resource"},
	} {
		d.set(step.scope, "rpm", "10/minute")
		d.applies("with limits of "+step.scope.String(), "alice", "chat", "alice/rpm 10/minute "+step.want)
		stored, err := d.c.Limits(d.ctx, d.namespace, step.scope)
		d.no(err)
		if stored.Scope != step.scope || stored.Limits.String() != "rpm 10/minute" || stored.Version == 0 {
			t.Errorf("stored: %+v", stored)
		}
	}
	d.applies("on another resource", "alice", "other", "alice/rpm 10/minute entity")
	d.applies("somebody else", "bob", "chat", "bob/rpm 10/minute resource")
	d.applies("somebody else on another resource", "bob", "other", "bob/rpm 10/minute system")
	d.applies("nobody", "", "chat", "/rpm 10/minute resource")
	r, err := d.c.Resolve(d.ctx, catalog.Subject{Namespace: d.namespace, Entity: "bob", Resource: "chat", Tier: "pro"})
	d.no(err)
	wantIDs(t, "a tier of the caller's token", tell(r), "bob/rpm 10/minute tier+resource")

	// The surprise: a custom tpm without rpm takes the rpm away.
	d.set(catalog.Scope{}, "rpm", "60/minute", "tpm", "10k/minute")
	d.set(catalog.Scope{Entity: "carol"}, "tpm", "50k/minute")
	r = d.resolve("carol", "other")
	wantIDs(t, "carol", tell(r), "carol/tpm 50000/minute entity")
	if len(r.Hidden) != 1 || r.Hidden[0].Limit != "rpm" || r.Hidden[0].Level != sluice.LevelSystem || r.Hidden[0].By != sluice.LevelEntity {
		t.Errorf("hidden: %+v", r.Hidden)
	}
	if text := r.Explain("carol"); !strings.Contains(text, "warning: rpm 60/minute of level system does not apply to carol") {
		t.Errorf("explained as:\n%s", text)
	}
	d.no(d.e.RemoveLimits(d.ctx, catalog.Scope{Entity: "carol"}, 0))
	d.applies("after removing them", "carol", "other", "carol/rpm 60/minute system", "carol/tpm 10000/minute system")
	d.is("removing them again", d.e.RemoveLimits(d.ctx, catalog.Scope{Entity: "carol"}, 0), catalog.ErrNotFound)

	stored, err := d.c.Limits(d.ctx, d.namespace, catalog.Scope{})
	d.no(err)
	_, err = d.e.SetLimits(d.ctx, catalog.Scope{}, limits("rpm", "1/s"), stored.Version-1)
	d.is("an old version", err, catalog.ErrConflict)
	page, err := d.c.ListLimits(d.ctx, d.namespace, catalog.LimitsQuery{Resource: "chat"})
	d.no(err)
	if len(page.Limits) != 1 || page.Limits[0].Scope != (catalog.Scope{Entity: "alice", Resource: "chat"}) {
		t.Errorf("entities with limits on chat: %+v", page.Limits)
	}
	for level, want := range map[sluice.Level]int{sluice.LevelEntity: 2, sluice.LevelTier: 2, sluice.LevelResource: 1, sluice.LevelSystem: 1} {
		page, err := d.c.ListLimits(d.ctx, d.namespace, catalog.LimitsQuery{Level: level})
		d.no(err)
		if len(page.Limits) != want {
			t.Errorf("level %s: %+v, want %d", level, page.Limits, want)
		}
	}
}

func checkFile(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.no(d.c.Declare(d.namespace, &catalog.Declaration{
		System:    limits("rpm", "1/minute"),
		Resources: map[string]catalog.Limits{"chat": limits("rpm", "2/minute")},
		Tiers:     map[string]catalog.TierDeclaration{"pro": {Limits: limits("rpm", "3/minute"), Resources: map[string]catalog.Limits{"chat": limits("rpm", "4/minute")}}},
		Entities: map[string]catalog.EntityDeclaration{
			"alice": {Tier: "pro", Parent: "team", Cascade: true, Resources: map[string]catalog.Limits{"web": limits("rpm", "6/minute")}},
			"team":  {Limits: limits("rpm", "5/minute")},
		},
	}))
	d.applies("system", "bob", "web", "bob/rpm 1/minute system")
	d.applies("resource", "bob", "chat", "bob/rpm 2/minute resource")
	d.applies("tier and cascade", "alice", "chat", "alice/rpm 4/minute tier+resource", "team/rpm 5/minute entity")
	d.applies("entity", "alice", "web", "alice/rpm 6/minute entity+resource", "team/rpm 5/minute entity")
	d.set(catalog.Scope{Resource: "chat"}, "rpm", "20/minute")
	d.applies("stored", "bob", "chat", "bob/rpm 20/minute resource")
	d.applies("a more specific level of the file", "alice", "chat", "alice/rpm 4/minute tier+resource", "team/rpm 5/minute entity")
	d.set(catalog.Scope{Tier: "pro", Resource: "chat"}, "rpm", "40/minute")
	d.set(catalog.Scope{Entity: "team"}, "rpm", "50/minute")
	d.applies("stored", "alice", "chat", "alice/rpm 40/minute tier+resource", "team/rpm 50/minute entity")
	d.create(catalog.Entity{ID: "alice"})
	d.applies("a stored entity is what it says", "alice", "chat", "alice/rpm 20/minute resource")
	d.no(d.c.Declare(d.namespace, &catalog.Declaration{}))
	if n := d.c.Stats().Resolutions.Entries; n != 0 {
		t.Errorf("%d answers by the old file are kept", n)
	}
	d.applies("another file", "bob", "web")
	if err := d.c.Declare(d.namespace, &catalog.Declaration{System: catalog.Limits{"rpm": {}}}); err == nil {
		t.Error("a declaration with an empty limit was not refused")
	}
}

func checkDefaultTier(t *testing.T, open Open) {
	d := newDesk(t, open)
	tier := func(general, chat string) catalog.TierDeclaration {
		return catalog.TierDeclaration{Limits: limits("rpm", general), Resources: map[string]catalog.Limits{"chat": limits("rpm", chat)}}
	}
	file := &catalog.Declaration{
		System: limits("rpm", "1/minute"), Resources: map[string]catalog.Limits{"login": limits("rpm", "2/minute")},
		Tiers:       map[string]catalog.TierDeclaration{"free": tier("3/minute", "4/minute"), "pro": tier("5/minute", "6/minute")},
		Entities:    map[string]catalog.EntityDeclaration{"dora": {Tier: "pro"}},
		DefaultTier: "free", AnonymousTier: "pro", Terms: map[string]catalog.Terms{"login": {Counts: catalog.Addresses, Shadow: true}},
	}
	d.no(d.c.Declare(d.namespace, file))
	d.tier("bare")
	d.create(catalog.Entity{ID: "alice"})
	d.create(catalog.Entity{ID: "bob", Tier: "bare"})
	check := func(what string, s catalog.Subject, tier string, want ...string) {
		t.Helper()
		s.Namespace = d.namespace
		r, err := d.c.Resolve(d.ctx, s)
		d.no(err)
		if wantIDs(t, what, tell(r), want...); r.Tier != tier {
			t.Errorf("%s: tier %q, want %q", what, r.Tier, tier)
		}
	}
	check("stored without a tier", catalog.Subject{Entity: "alice", Resource: "chat"}, "free", "alice/rpm 4/minute tier+resource")
	check("not stored", catalog.Subject{Entity: "carol"}, "free", "carol/rpm 3/minute tier")
	check("in the file", catalog.Subject{Entity: "dora", Resource: "chat"}, "pro", "dora/rpm 6/minute tier+resource")
	check("a tier nobody knows", catalog.Subject{Entity: "carol", Tier: "gold", Resource: "chat"}, "free", "carol/rpm 4/minute tier+resource")
	check("a stored tier without limits", catalog.Subject{Entity: "bob", Resource: "chat"}, "bare", "bob/rpm 1/minute system")
	check("an address", catalog.Subject{Entity: "ip:192.0.2.1", Resource: "chat"}, "pro", "/rpm 6/minute tier+resource")
	check("a resource that stands apart", catalog.Subject{Entity: "carol", Resource: "login"}, "free", "carol/rpm 2/minute resource")
	check("several resources", catalog.Subject{Entity: "carol", Resources: catalog.JoinResources("chat", "login", "web")}, "free",
		"carol/rpm 4/minute tier+resource", "carol/rpm 2/minute resource", "carol/rpm 3/minute tier")
	check("another file", catalog.Subject{Entity: "carol", Resource: "chat", File: &catalog.Declaration{System: limits("rpm", "9/minute")}}, "", "carol/rpm 9/minute system")
	r := d.resolve("carol", "login")
	if demand := r.Demands(nil, "carol")[0]; !demand.Shadow || !strings.Contains(r.Explain("carol"), "carol on login, tier free:") {
		t.Errorf("%+v\n%s", demand, r.Explain("carol"))
	}
	// Without a store the answers are the same.
	var declared catalog.Declared
	for _, s := range []catalog.Subject{{Entity: "carol", Resource: "chat"}, {Entity: "dora"}, {Entity: "ip:192.0.2.1"}, {Entity: "x", Tier: "gold"}, {Entity: "x", Tier: "pro", Resource: "login"}} {
		s.Namespace, s.File = d.namespace, file
		with, err := d.c.Resolve(d.ctx, s)
		d.no(err)
		without, err := declared.Resolve(d.ctx, s)
		d.no(err)
		if got, want := without.Demands(nil, s.Entity), with.Demands(nil, s.Entity); !slices.Equal(got, want) || without.Tier != with.Tier {
			t.Errorf("%+v: %+v of tier %s without a store, %+v of tier %s with one", s, got, without.Tier, want, with.Tier)
		}
	}
	// What is stored for the default tier counts, and is heard of.
	d.set(catalog.Scope{Tier: "free", Resource: "chat"}, "rpm", "40/minute")
	check("stored for the default tier", catalog.Subject{Entity: "carol", Resource: "chat"}, "free", "carol/rpm 40/minute tier+resource")
	d.tier("gold")
	check("the tier is known now", catalog.Subject{Entity: "carol", Tier: "gold", Resource: "chat"}, "gold", "carol/rpm 1/minute system")
}

func checkAnonymous(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.set(catalog.Scope{Resource: "login"}, "rpm", "5/minute")
	for _, id := range []string{"ip:192.0.2.1", "header:X-Tenant:acme"} {
		_, err := d.e.CreateEntity(d.ctx, catalog.Entity{ID: id})
		d.names("entity", err, "entity.id", id)
		_, err = d.e.CreateEntity(d.ctx, catalog.Entity{ID: "child", Parent: id})
		d.names("parent", err, "entity.parent", id)
		_, err = d.e.SetLimits(d.ctx, catalog.Scope{Entity: id, Resource: "login"}, limits("rpm", "1/s"), 0)
		d.names("limits", err, "scope.entity", id)
		_, err = d.e.SetOverride(d.ctx, catalog.Override{Entity: id, Limit: "rpm", Setting: limits("rpm", "1/s")["rpm"], Until: d.clock.Now().Add(time.Hour)})
		d.names("override", err, "override.entity", id)
		_, _, err = d.e.CreateKey(d.ctx, catalog.Key{Entity: id})
		d.names("key", err, "key.entity", id)
		_, err = d.c.Plan(d.ctx, d.namespace, catalog.Declaration{Name: "f", Entities: map[string]catalog.EntityDeclaration{id: {Limits: limits("rpm", "1/s")}}})
		d.names("plan", err, "entity.id", id)
		before := d.c.Stats().Resolutions.Entries
		for i := range 10 {
			d.applies("made up", id+strings.Repeat("0", i), "login", "/rpm 5/minute resource")
		}
		if after := d.c.Stats().Resolutions.Entries; after > before+1 {
			t.Errorf("10 made up of %s are remembered as %d", id, after-before)
		}
	}
}

func checkCascade(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.create(catalog.Entity{ID: "company"})
	d.create(catalog.Entity{ID: "team", Parent: "company", Cascade: true})
	alice := d.create(catalog.Entity{ID: "alice", Parent: "team", Cascade: true})
	d.create(catalog.Entity{ID: "bob", Parent: "team"})
	d.set(catalog.Scope{Entity: "alice"}, "rpm", "10/minute", "tpm", "100/minute")
	d.set(catalog.Scope{Entity: "team", Resource: "chat"}, "rpm", "20/minute")
	d.set(catalog.Scope{Entity: "company"}, "rpm", "30/minute")
	d.set(catalog.Scope{}, "rpm", "1/minute")
	d.applies("alice", "alice", "chat",
		"alice/rpm 10/minute entity", "alice/tpm 100/minute entity", "team/rpm 20/minute entity+resource", "company/rpm 30/minute entity")
	d.applies("bob, who does not cascade", "bob", "chat", "bob/rpm 1/minute system")
	r := d.resolve("alice", "chat")
	costs := r.Demands(nil, "alice", sluice.LimitCost{Cost: sluice.Tokens(2)}, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(40)})
	if costs[0].Cost.Thousandths() != 2*sluice.Token || costs[1].Cost.Thousandths() != 40*sluice.Token || costs[3].Cost.Thousandths() != 2*sluice.Token {
		t.Errorf("costs: %v, %v, %v", costs[0].Cost, costs[1].Cost, costs[3].Cost)
	}
	call := r.With(limits("rpm", "99/minute")).Demands(nil, "alice")
	if len(call) != 3 || call[0].Level != sluice.LevelCall || call[0].Limit.Amount.Thousandths() != 99*sluice.Token || call[2].Key.Entity != "company" {
		t.Errorf("with limits of the call: %+v", call)
	}
	alice.Cascade = false
	_, err := d.e.UpdateEntity(d.ctx, alice)
	d.no(err)
	d.applies("alice alone", "alice", "chat", "alice/rpm 10/minute entity", "alice/tpm 100/minute entity")
}

func checkOverrides(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.set(catalog.Scope{}, "rpm", "10/minute")
	set := func(limit, resource, numbers string, lasts time.Duration) (catalog.Override, error) {
		return d.e.SetOverride(d.ctx, catalog.Override{Entity: "alice", Limit: limit, Resource: resource,
			Setting: catalog.Setting{Limit: sluice.MustParse(numbers)}, Until: d.clock.Now().Add(lasts)})
	}
	o, err := set("rpm", "", "100/minute", time.Hour)
	d.no(err)
	if o.By != by.Actor || o.Reason != by.Reason || o.Version == 0 {
		t.Errorf("got %+v", o)
	}
	d.applies("overridden", "alice", "chat", "alice/rpm 100/minute entity")
	d.applies("somebody else", "bob", "chat", "bob/rpm 10/minute system")
	_, err = set("rpm", "chat", "200/minute", 30*time.Minute)
	d.no(err)
	d.applies("overridden for a resource", "alice", "chat", "alice/rpm 200/minute entity+resource")
	d.applies("another resource", "alice", "web", "alice/rpm 100/minute entity")
	_, err = set("tpm", "web", "5/s", 10*time.Minute)
	d.no(err)
	d.applies("one more limit", "alice", "web", "alice/rpm 100/minute entity", "alice/tpm 5/s entity+resource")
	page, err := d.c.Overrides(d.ctx, d.namespace, "alice", "", 0)
	d.no(err)
	if len(page.Overrides) != 3 {
		t.Errorf("overrides: %+v", page.Overrides)
	}
	d.clock.Set(31 * time.Minute)
	d.applies("after one has lapsed", "alice", "chat", "alice/rpm 100/minute entity")
	d.no(d.e.RemoveOverride(d.ctx, "alice", "rpm", ""))
	d.applies("after the other is removed", "alice", "chat", "alice/rpm 10/minute system")
	_, err = set("rpm", "", "1/s", -time.Minute)
	d.wrong("one in the past", err)
	_, err = d.c.Edit(d.namespace, catalog.By{Actor: "anna"}).SetOverride(d.ctx, o)
	d.wrong("one without a reason", err)
	_, err = set("rpm", "", "1/s", time.Hour)
	d.no(err)
	page, err = d.c.Overrides(d.ctx, d.namespace, "alice", "", 0)
	d.no(err)
	if len(page.Overrides) != 1 {
		t.Errorf("lapsed overrides are still there: %+v", page.Overrides)
	}
}

func checkNodes(t *testing.T, open Open) {
	d := newDesk(t, open)
	other := d.node(open)
	d.tier("free")
	d.tier("pro")
	alice := d.create(catalog.Entity{ID: "alice", Tier: "free"})
	d.set(catalog.Scope{Tier: "pro"}, "rpm", "100/minute")
	d.set(catalog.Scope{Tier: "free"}, "rpm", "1/minute")
	other.soon("the other node watches", func() bool { return other.c.Stats().Watching })
	sees := func(what, want string) {
		t.Helper()
		other.soon(what, func() bool { return strings.Join(tell(other.resolve("alice", "chat")), "; ") == want })
	}
	sees("the beginning", "alice/rpm 1/minute tier")
	alice.Tier = "pro"
	_, err := d.e.UpdateEntity(d.ctx, alice)
	d.no(err)
	d.applies("here at once", "alice", "chat", "alice/rpm 100/minute tier")
	sees("an upgrade", "alice/rpm 100/minute tier")
	d.set(catalog.Scope{Tier: "pro"}, "rpm", "200/minute")
	sees("other limits of the tier", "alice/rpm 200/minute tier")
	d.set(catalog.Scope{Entity: "alice", Resource: "chat"}, "rpm", "7/s")
	sees("limits of her own", "alice/rpm 7/s entity+resource")
	before := other.c.Stats().Resolutions
	for range 100 {
		other.resolve("alice", "chat")
	}
	if after := other.c.Stats().Resolutions; after.Hits-before.Hits != 100 || after.Loads != before.Loads {
		t.Errorf("100 warm answers: %d hits and %d reads", after.Hits-before.Hits, after.Loads-before.Loads)
	}
	// Changes of others do not make it forget.
	d.create(catalog.Entity{ID: "bob"})
	d.set(catalog.Scope{Entity: "bob"}, "rpm", "7/s")
	other.resolve("alice", "chat")
	d.no(d.c.Flush(d.ctx))
	sees("what is so after a flush", "alice/rpm 7/s entity+resource")
	before = other.c.Stats().Resolutions
	other.soon("the other node reads again", func() bool {
		other.resolve("alice", "chat")
		return other.c.Stats().Resolutions.Loads > before.Loads
	})
}

func checkStampede(t *testing.T, open Open) {
	d := newDesk(t, open)
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { d.resolve("alice", "chat") })
	}
	wg.Wait()
	s := d.c.Stats().Resolutions
	// The beginning of the watch makes it read once more.
	if s.Hits+s.Misses != 100 || s.Loads > 3 {
		t.Errorf("100 at once: %+v, want at most 3 reads", s)
	}
	for i := range 3 {
		_, err := d.c.Resolve(d.ctx, catalog.Subject{Namespace: "nowhere", Entity: "alice"})
		if !errors.Is(err, catalog.ErrNotFound) {
			t.Errorf("got error %v", err)
		}
		if now := d.c.Stats().Resolutions.Loads; i == 0 {
			s.Loads = now
		} else if now > s.Loads+1 {
			t.Errorf("that nothing is there was read %d times", now-s.Loads+1)
		}
	}
}
