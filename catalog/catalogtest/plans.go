package catalogtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-go/sluice/catalog"
)

func planChecks() []Check {
	return []Check{
		{"plans: what a file declares becomes what is stored", checkPlan},
		{"plans: all or nothing, and not if anything has changed", checkPlanAtomic},
		{"plans: a file removes only what is its own", checkPlanOwner},
		{"plans: the rules hold for files, too", checkPlanRules},
	}
}

func declaration() catalog.Declaration {
	return catalog.Declaration{
		Name:      "limits.yaml",
		System:    limits("rpm", "60/minute", "tpm", "10k/minute"),
		Resources: map[string]catalog.Limits{"chat": limits("rpm", "30/minute", "tpm", "5k/minute")},
		Tiers: map[string]catalog.TierDeclaration{
			"pro": {Description: "paid", Limits: limits("rpm", "600/minute", "tpm", "100k/minute"), Resources: map[string]catalog.Limits{"chat": limits("rpm", "300/minute", "tpm", "50k/minute")}},
		},
		Entities: map[string]catalog.EntityDeclaration{
			"acme":  {Name: "Acme", Tier: "pro"},
			"alice": {Parent: "acme", Cascade: true, Metadata: map[string]string{"k": "v"}, Resources: map[string]catalog.Limits{"chat": limits("rpm", "5/s", "tpm", "9k/minute")}},
			"bob":   {Limits: limits("rpm", "1/s", "tpm", "1k/minute")},
		},
	}
}

func (d *desk) plan(decl catalog.Declaration) *catalog.Plan {
	d.t.Helper()
	p, err := d.c.Plan(d.ctx, d.namespace, decl)
	d.no(err)
	return p
}

func (d *desk) apply(decl catalog.Declaration) *catalog.Plan {
	d.t.Helper()
	p := d.plan(decl)
	d.no(d.e.Apply(d.ctx, p))
	return p
}

func checkPlan(t *testing.T, open Open) {
	d := newDesk(t, open)
	decl := declaration()
	if got := d.plan(decl).String(); got != `+ tier pro: paid
+ entity acme: name Acme, tier pro
+ entity alice: parent acme, cascades, k="v"
+ limits of the system: rpm 60/minute, tpm 10000/minute
+ limits of resource chat: rpm 30/minute, tpm 5000/minute
+ limits of tier pro: rpm 600/minute, tpm 100000/minute
+ limits of tier pro on chat: rpm 300/minute, tpm 50000/minute
+ limits of entity alice on chat: rpm 5/s, tpm 9000/minute
+ limits of entity bob: rpm 1/s, tpm 1000/minute
9 to create, 0 to change, 0 to adopt, 0 to remove
` {
		t.Errorf("the plan is:\n%s", got)
	}
	if ids := d.entityIDs(); len(ids) != 0 {
		t.Errorf("a plan alone has stored %q", ids)
	}
	d.apply(decl)
	d.applies("applied", "alice", "chat", "alice/rpm 5/s entity+resource", "alice/tpm 9000/minute entity+resource",
		"acme/rpm 300/minute tier+resource", "acme/tpm 50000/minute tier+resource")
	wantIDs(t, "an entity of which only limits are declared is not made", d.entityIDs(), "acme<", "alice<acme")
	again := d.plan(decl)
	if !again.Empty() || !strings.HasPrefix(again.String(), "nothing to do") {
		t.Errorf("the second plan is:\n%s", again)
	}
	before, err := d.c.Audit(d.ctx, d.namespace, catalog.AuditQuery{})
	d.no(err)
	d.no(d.e.Apply(d.ctx, again))
	after, err := d.c.Audit(d.ctx, d.namespace, catalog.AuditQuery{})
	d.no(err)
	if len(before.Events) != 9 || len(after.Events) != 9 || before.Events[0].Actor != by.Actor {
		t.Errorf("%d events, then %d, want 9", len(before.Events), len(after.Events))
	}

	// The surprise, and changes.
	decl.System = limits("rpm", "90/minute", "tpm", "10k/minute")
	bob := decl.Entities["bob"]
	bob.Limits = limits("tpm", "50k/minute")
	decl.Entities["bob"] = bob
	delete(decl.Entities, "alice")
	if got := d.apply(decl).String(); got != `~ limits of the system: rpm 60/minute, tpm 10000/minute -> rpm 90/minute, tpm 10000/minute
~ limits of entity bob: rpm 1/s, tpm 1000/minute -> tpm 50000/minute
- entity alice: parent acme, cascades, k="v"
- limits of entity alice on chat: rpm 5/s, tpm 9000/minute
0 to create, 2 to change, 0 to adopt, 2 to remove
warning: entity bob has no rpm, so rpm 90/minute of the system does not apply there: a more specific level replaces the others as a whole
` {
		t.Errorf("the plan is:\n%s", got)
	}
	wantIDs(t, "after that", d.entityIDs(), "acme<")
}

func checkPlanAtomic(t *testing.T, open Open) {
	d := newDesk(t, open)
	decl := declaration()
	p := d.plan(decl)
	d.set(catalog.Scope{Entity: "bob"}, "rpm", "1/s") // somebody was faster
	d.is("a plan out of date", d.e.Apply(d.ctx, p), catalog.ErrConflict)
	page, err := d.c.ListLimits(d.ctx, d.namespace, catalog.LimitsQuery{})
	d.no(err)
	if ids := d.entityIDs(); len(ids) != 0 || len(page.Limits) != 1 {
		t.Errorf("half of a plan was applied: %q, %+v", ids, page.Limits)
	}
	p = d.plan(decl)
	d.create(catalog.Entity{ID: "acme", Name: "Acme"})
	d.is("an entity that somebody made meanwhile", d.e.Apply(d.ctx, p), catalog.ErrConflict)
	if err := d.c.Edit("elsewhere", by).Apply(d.ctx, p); err == nil {
		t.Error("a plan was applied in another namespace")
	}
	d.apply(decl)
	if p := d.plan(decl); !p.Empty() {
		t.Errorf("left to do:\n%s", p)
	}
}

func checkPlanOwner(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.set(catalog.Scope{Entity: "carol"}, "rpm", "1/s", "tpm", "1/s")
	d.create(catalog.Entity{ID: "carol"})
	d.set(catalog.Scope{}, "rpm", "60/minute", "tpm", "10k/minute") // as declared
	p := d.apply(declaration())
	if !strings.Contains(p.String(), "= limits of the system") || !strings.Contains(p.String(), "1 to adopt") {
		t.Errorf("the plan is:\n%s", p)
	}
	other := catalog.Declaration{Name: "other.yaml", Resources: map[string]catalog.Limits{"web": limits("rpm", "1/s")}}
	d.apply(other)
	other.System = limits("rpm", "2/s")
	_, err := d.c.Plan(d.ctx, d.namespace, other)
	d.is("what another file declares", err, catalog.ErrExists)
	d.apply(catalog.Declaration{Name: "limits.yaml"}) // everything goes that is its own
	wantIDs(t, "left", d.entityIDs(), "carol<")
	d.applies("left", "carol", "chat", "carol/rpm 1/s entity", "carol/tpm 1/s entity")
	d.applies("left of the other file", "dave", "web", "dave/rpm 1/s resource")
	d.applies("nothing is left of the system's", "dave", "chat")
}

func checkPlanRules(t *testing.T, open Open) {
	d := newDesk(t, open)
	entities := func(e map[string]catalog.EntityDeclaration) catalog.Declaration {
		return catalog.Declaration{Name: "f", Entities: e}
	}
	refused := func(what string, decl catalog.Declaration, want error) {
		t.Helper()
		_, err := d.c.Plan(d.ctx, d.namespace, decl)
		if want != nil {
			d.is(what, err, want)
		} else {
			d.wrong(what, err)
		}
	}
	refused("no name", catalog.Declaration{System: limits("rpm", "1/s")}, nil)
	refused("a bad limit", catalog.Declaration{Name: "f", System: catalog.Limits{"rpm": {}}}, nil)
	refused("an unknown tier", entities(map[string]catalog.EntityDeclaration{"a": {Tier: "x"}}), catalog.ErrNotFound)
	refused("an unknown parent", entities(map[string]catalog.EntityDeclaration{"a": {Parent: "x"}}), catalog.ErrNotFound)
	refused("a circle", entities(map[string]catalog.EntityDeclaration{"a": {Parent: "b"}, "b": {Parent: "c"}, "c": {Parent: "a"}}), nil)
	deep := map[string]catalog.EntityDeclaration{"d0": {Name: "top"}}
	for i := range catalog.MaxDepth {
		deep[fmt.Sprintf("d%d", i+1)] = catalog.EntityDeclaration{Parent: fmt.Sprintf("d%d", i)}
	}
	refused("too deep", entities(deep), nil)
	delete(deep, fmt.Sprintf("d%d", catalog.MaxDepth))
	d.apply(entities(deep))
	refused("deeper by a stored child", func() catalog.Declaration {
		deep["top"] = catalog.EntityDeclaration{Name: "above"}
		deep["d0"] = catalog.EntityDeclaration{Parent: "top"}
		return entities(deep)
	}(), nil)

	d.apply(catalog.Declaration{Name: "g", Tiers: map[string]catalog.TierDeclaration{"pro": {}}, Entities: map[string]catalog.EntityDeclaration{"boss": {Name: "x"}}})
	d.create(catalog.Entity{ID: "child", Parent: "boss", Tier: "pro"})
	refused("a tier in use", catalog.Declaration{Name: "g", Entities: map[string]catalog.EntityDeclaration{"boss": {Name: "x"}}}, catalog.ErrInUse)
	refused("a parent of others", catalog.Declaration{Name: "g", Tiers: map[string]catalog.TierDeclaration{"pro": {}}}, catalog.ErrHasChildren)
}
