package catalogtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
)

func entityChecks() []Check {
	return []Check{
		{"entities: create, read, update, delete", checkEntities},
		{"entities: an old version changes nothing", checkEntityVersions},
		{"entities: parents, depth and circles", checkTree},
		{"entities: what becomes of children", checkChildren},
		{"entities: editors who would make a circle together", checkCircleRace},
		{"entities: a parent deleted while it gets a child", checkOrphanRace},
		{"tiers: there or not, used or not", checkTiers},
		{"tiers: deleted while somebody gets it", checkTierRace},
		{"names are checked at the edge", checkEdge},
		{"nothing has a name that cannot be stored", checkUnstorable},
	}
}

func checkEntities(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.tier("pro")
	d.create(catalog.Entity{ID: "acme"})
	want := catalog.Entity{ID: "alice", Name: "Alice", Parent: "acme", Cascade: true, Tier: "pro", Metadata: map[string]string{"plan": "ä"}}
	created := d.create(want)
	got, err := d.c.Entity(d.ctx, d.namespace, "alice")
	d.no(err)
	if got.ID != "alice" || got.Name != "Alice" || got.Parent != "acme" || !got.Cascade || got.Tier != "pro" || !maps.Equal(got.Metadata, want.Metadata) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Version == 0 || got.Version != created.Version || got.Created.IsZero() || !got.Created.Equal(created.Created) || time.Since(got.Created) > time.Minute {
		t.Errorf("got version %d of %s, created version %d of %s", got.Version, got.Created, created.Version, created.Created)
	}
	_, err = d.e.CreateEntity(d.ctx, want)
	d.is("creating it again", err, catalog.ErrExists)
	got.Name, got.Parent, got.Cascade = "Alice B.", "", false
	updated, err := d.e.UpdateEntity(d.ctx, got)
	d.no(err)
	after, err := d.c.Entity(d.ctx, d.namespace, "alice")
	d.no(err)
	if after.Name != "Alice B." || after.Parent != "" || after.Version != updated.Version || after.Version <= got.Version || !after.Created.Equal(created.Created) {
		t.Errorf("after an update: %+v", after)
	}
	page, err := d.c.Entities(d.ctx, d.namespace, catalog.EntityQuery{Tier: "pro"})
	d.no(err)
	if len(page.Entities) != 1 || page.Entities[0].ID != "alice" {
		t.Errorf("entities of tier pro: %+v", page.Entities)
	}
	d.no(d.e.DeleteEntity(d.ctx, "alice", after.Version, catalog.RefuseChildren))
	_, err = d.c.Entity(d.ctx, d.namespace, "alice")
	d.is("after deleting", err, catalog.ErrNotFound)
	d.is("deleting again", d.e.DeleteEntity(d.ctx, "alice", 0, catalog.RefuseChildren), catalog.ErrNotFound)
	_, err = d.e.UpdateEntity(d.ctx, after)
	d.is("updating what is gone", err, catalog.ErrNotFound)
}

func checkEntityVersions(t *testing.T, open Open) {
	d := newDesk(t, open)
	first := d.create(catalog.Entity{ID: "alice"})
	second := first
	second.Name = "second"
	second, err := d.e.UpdateEntity(d.ctx, second)
	d.no(err)
	first.Name = "lost"
	_, err = d.e.UpdateEntity(d.ctx, first)
	d.is("updating an old version", err, catalog.ErrConflict)
	d.is("deleting an old version", d.e.DeleteEntity(d.ctx, "alice", first.Version, catalog.RefuseChildren), catalog.ErrConflict)
	// Made anew it is another one, even if all else is the same.
	d.no(d.e.DeleteEntity(d.ctx, "alice", second.Version, catalog.RefuseChildren))
	d.create(catalog.Entity{ID: "alice"})
	_, err = d.e.UpdateEntity(d.ctx, second)
	d.is("updating one that was deleted and made anew", err, catalog.ErrConflict)

	// Editors who read and write with the version lose nothing.
	other := d.node(open)
	const editors, edits = 6, 5
	var wg sync.WaitGroup
	for i := range editors {
		desk := []*desk{d, other}[i%2]
		wg.Go(func() {
			for j := range edits {
				for {
					e, err := desk.c.Entity(desk.ctx, desk.namespace, "alice")
					if err != nil {
						t.Error(err)
						return
					}
					if e.Metadata == nil {
						e.Metadata = map[string]string{}
					}
					e.Metadata[fmt.Sprintf("e%d-%d", i, j)] = "x"
					_, err = desk.e.UpdateEntity(desk.ctx, e)
					if err == nil {
						break
					}
					if !errors.Is(err, catalog.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	e, err := d.c.Entity(d.ctx, d.namespace, "alice")
	d.no(err)
	if len(e.Metadata) != editors*edits {
		t.Errorf("%d edits are left of %d", len(e.Metadata), editors*edits)
	}
}

func checkTree(t *testing.T, open Open) {
	d := newDesk(t, open)
	_, err := d.e.CreateEntity(d.ctx, catalog.Entity{ID: "x", Parent: "nobody"})
	d.is("a parent that is not there", err, catalog.ErrNotFound)
	parent := ""
	for i := range catalog.MaxDepth {
		id := fmt.Sprintf("d%d", i+1)
		d.create(catalog.Entity{ID: id, Parent: parent, Cascade: parent != ""})
		parent = id
	}
	_, err = d.e.CreateEntity(d.ctx, catalog.Entity{ID: "deeper", Parent: parent})
	d.wrong("one level too many", err)
	move := func(id, parent string) error {
		e, err := d.c.Entity(d.ctx, d.namespace, id)
		d.no(err)
		e.Parent, e.Cascade = parent, false
		_, err = d.e.UpdateEntity(d.ctx, e)
		return err
	}
	d.wrong("a circle of two", move("d1", "d2"))
	d.wrong("a circle of all", move("d1", "d8"))
	d.wrong("its own parent", move("d3", "d3"))
	d.create(catalog.Entity{ID: "top"})
	d.wrong("a whole tree one level too deep", move("d1", "top"))
	d.no(move("d2", "top")) // 7 levels under one
	d.no(move("d2", ""))
	if r := d.resolve("d8", ""); r == nil {
		t.Error("nothing")
	}
	page, err := d.c.Entities(d.ctx, d.namespace, catalog.EntityQuery{Parent: "d2"})
	d.no(err)
	if len(page.Entities) != 1 || page.Entities[0].ID != "d3" {
		t.Errorf("children of d2: %+v", page.Entities)
	}
}

func (d *desk) family() {
	d.t.Helper()
	d.create(catalog.Entity{ID: "company"})
	d.create(catalog.Entity{ID: "team", Parent: "company", Cascade: true})
	for _, id := range []string{"a", "b"} {
		d.create(catalog.Entity{ID: id, Parent: "team", Cascade: true})
		d.set(catalog.Scope{Entity: id}, "rpm", "10/minute")
		d.set(catalog.Scope{Entity: id, Resource: "chat"}, "rpm", "5/minute")
	}
}

func (d *desk) entityIDs() (ids []string) {
	d.t.Helper()
	page, err := d.c.Entities(d.ctx, d.namespace, catalog.EntityQuery{})
	d.no(err)
	for _, e := range page.Entities {
		ids = append(ids, e.ID+"<"+e.Parent)
	}
	return ids
}

func checkChildren(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.family()
	d.is("deleting a parent", d.e.DeleteEntity(d.ctx, "team", 0, catalog.RefuseChildren), catalog.ErrHasChildren)
	d.no(d.e.DeleteEntity(d.ctx, "team", 0, catalog.LiftChildren))
	wantIDs(t, "after lifting", d.entityIDs(), "a<company", "b<company", "company<")
	a, err := d.c.Entity(d.ctx, d.namespace, "a")
	d.no(err)
	if !a.Cascade {
		t.Error("a lifted child does not cascade any more")
	}
	d.no(d.e.DeleteEntity(d.ctx, "company", 0, catalog.LiftChildren))
	wantIDs(t, "after lifting to the top", d.entityIDs(), "a<", "b<")

	o := d.beside()
	o.family()
	_, _, err = o.e.CreateKey(o.ctx, catalog.Key{Entity: "b"})
	o.no(err)
	_, err = o.e.SetOverride(o.ctx, catalog.Override{Entity: "b", Limit: "rpm", Setting: limits("rpm", "1/s")["rpm"], Until: time.Now().Add(time.Hour)})
	o.no(err)
	o.no(o.e.DeleteEntity(o.ctx, "company", 0, catalog.DeleteChildren))
	wantIDs(t, "after deleting all", o.entityIDs())
	limits, err := o.c.ListLimits(o.ctx, o.namespace, catalog.LimitsQuery{})
	o.no(err)
	keys, err := o.c.Keys(o.ctx, o.namespace, "", "", 0)
	o.no(err)
	overrides, err := o.c.Overrides(o.ctx, o.namespace, "", "", 0)
	o.no(err)
	if len(limits.Limits)+len(keys.Keys)+len(overrides.Overrides) != 0 {
		t.Errorf("left behind: %d limits, %d keys, %d overrides", len(limits.Limits), len(keys.Keys), len(overrides.Overrides))
	}
}

// atOnce runs both at once and answers their errors.
func atOnce(a, b func() error) (errA, errB error) {
	var wg sync.WaitGroup
	wg.Go(func() { errA = a() })
	errB = b()
	wg.Wait()
	return errA, errB
}

func checkCircleRace(t *testing.T, open Open) {
	d := newDesk(t, open)
	other := d.node(open)
	for round := range 8 {
		a, b := d.create(catalog.Entity{ID: fmt.Sprintf("a%d", round)}), d.create(catalog.Entity{ID: fmt.Sprintf("b%d", round)})
		a.Parent, b.Parent = b.ID, a.ID
		errA, errB := atOnce(
			func() error { _, err := d.e.UpdateEntity(d.ctx, a); return err },
			func() error { _, err := other.e.UpdateEntity(other.ctx, b); return err },
		)
		if (errA == nil) == (errB == nil) {
			t.Fatalf("two who would make a circle got errors %v and %v", errA, errB)
		}
	}
}

func checkOrphanRace(t *testing.T, open Open) {
	d := newDesk(t, open)
	other := d.node(open)
	for round := range 8 {
		parent, child := fmt.Sprintf("p%d", round), fmt.Sprintf("c%d", round)
		d.create(catalog.Entity{ID: parent})
		errDelete, errCreate := atOnce(
			func() error { return d.e.DeleteEntity(d.ctx, parent, 0, catalog.RefuseChildren) },
			func() error {
				_, err := other.e.CreateEntity(other.ctx, catalog.Entity{ID: child, Parent: parent})
				return err
			},
		)
		switch {
		case errDelete == nil && errors.Is(errCreate, catalog.ErrNotFound):
		case errors.Is(errDelete, catalog.ErrHasChildren) && errCreate == nil:
		default:
			t.Fatalf("deleting a parent: %v; adding a child: %v", errDelete, errCreate)
		}
	}
	for _, id := range d.entityIDs() {
		t.Log(id)
	}
}

func checkTiers(t *testing.T, open Open) {
	d := newDesk(t, open)
	_, err := d.e.CreateEntity(d.ctx, catalog.Entity{ID: "alice", Tier: "pro"})
	d.is("a tier that is not there", err, catalog.ErrNotFound)
	_, err = d.e.SetLimits(d.ctx, catalog.Scope{Tier: "pro"}, limits("rpm", "1/s"), 0)
	d.is("limits of a tier that is not there", err, catalog.ErrNotFound)
	d.tier("pro")
	d.tier("free")
	alice := d.create(catalog.Entity{ID: "alice", Tier: "pro"})
	d.set(catalog.Scope{Tier: "pro"}, "rpm", "100/minute")
	d.set(catalog.Scope{Tier: "free"}, "rpm", "1/minute")
	d.is("deleting a tier in use", d.e.DeleteTier(d.ctx, "pro", 0), catalog.ErrInUse)
	d.applies("in tier pro", "alice", "chat", "alice/rpm 100/minute tier")
	alice.Tier = "free"
	_, err = d.e.UpdateEntity(d.ctx, alice)
	d.no(err)
	d.applies("right after the change", "alice", "chat", "alice/rpm 1/minute tier")
	d.no(d.e.DeleteTier(d.ctx, "pro", 0))
	_, err = d.c.Limits(d.ctx, d.namespace, catalog.Scope{Tier: "pro"})
	d.is("limits of a deleted tier", err, catalog.ErrNotFound)
	page, err := d.c.Tiers(d.ctx, d.namespace, "", 0)
	d.no(err)
	if len(page.Tiers) != 1 || page.Tiers[0].Name != "free" {
		t.Errorf("tiers: %+v", page.Tiers)
	}
	// A tier of the policy file is there, too.
	d.no(d.c.Declare(d.namespace, &catalog.Declaration{Tiers: map[string]catalog.TierDeclaration{"file": {Limits: limits("rpm", "7/s")}}}))
	d.create(catalog.Entity{ID: "bob", Tier: "file"})
	d.applies("in a tier of the file", "bob", "", "bob/rpm 7/s tier")
}

func checkTierRace(t *testing.T, open Open) {
	d := newDesk(t, open)
	other := d.node(open)
	for round := range 8 {
		tier, id := fmt.Sprintf("t%d", round), fmt.Sprintf("e%d", round)
		d.tier(tier)
		errDelete, errCreate := atOnce(
			func() error { return d.e.DeleteTier(d.ctx, tier, 0) },
			func() error {
				_, err := other.e.CreateEntity(other.ctx, catalog.Entity{ID: id, Tier: tier})
				return err
			},
		)
		switch {
		case errDelete == nil && errors.Is(errCreate, catalog.ErrNotFound):
		case errors.Is(errDelete, catalog.ErrInUse) && errCreate == nil:
		default:
			t.Fatalf("deleting a tier: %v; joining it: %v", errDelete, errCreate)
		}
	}
}

func checkEdge(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.set(catalog.Scope{}, "rpm", "7/minute")
	for _, id := range []string{"", "$SYSTEM", "a\x00b", "a\nb", "\xff", " a", "a ", string(slices.Repeat([]byte("x"), 256))} {
		_, err := d.e.CreateEntity(d.ctx, catalog.Entity{ID: id})
		d.wrong(fmt.Sprintf("entity %q", id), err)
		if id != "" {
			_, err = d.e.SetLimits(d.ctx, catalog.Scope{Resource: id}, limits("rpm", "1/s"), 0)
			d.wrong(fmt.Sprintf("resource %q", id), err)
			_, err = d.c.Resolve(d.ctx, catalog.Subject{Namespace: d.namespace, Resource: id})
			d.wrong(fmt.Sprintf("resolving resource %q", id), err)
			d.applies(fmt.Sprintf("entity %q, about which nothing can be stored", id), id, "", "/rpm 7/minute system")
		}
	}
	for _, name := range []string{"", "a b", "a@b", "-a", "ä"} {
		_, err := d.e.SetLimits(d.ctx, catalog.Scope{}, catalog.Limits{name: limits("x", "1/s")["x"]}, 0)
		d.wrong(fmt.Sprintf("limit %q", name), err)
		_, err = d.e.PutTier(d.ctx, catalog.Tier{Name: name})
		d.wrong(fmt.Sprintf("tier %q", name), err)
		d.wrong(fmt.Sprintf("namespace %q", name), d.c.Edit(name, by).CreateNamespace(d.ctx, ""))
	}
	_, err := d.e.SetLimits(d.ctx, catalog.Scope{}, nil, 0)
	d.wrong("no limits", err)
	_, err = d.e.SetLimits(d.ctx, catalog.Scope{Entity: "a", Tier: "b"}, limits("rpm", "1/s"), 0)
	d.wrong("entity and tier", err)
	_, err = d.e.SetLimits(d.ctx, catalog.Scope{}, catalog.Limits{"rpm": {}}, 0)
	d.wrong("an empty limit", err)
	_, err = d.c.Edit(d.namespace, catalog.By{}).CreateEntity(d.ctx, catalog.Entity{ID: "a"})
	d.wrong("a change by nobody", err)
	_, err = d.c.Edit("nowhere", by).CreateEntity(d.ctx, catalog.Entity{ID: "a"})
	d.is("a change nowhere", err, catalog.ErrNotFound)
	_, err = d.c.Entities(d.ctx, d.namespace, catalog.EntityQuery{Max: 1001})
	d.wrong("a page too large", err)
}

// checkUnstorable asks for what cannot be there, in every way in which callers
// can name it. That is no failure of the store.
func checkUnstorable(t *testing.T, open Open) {
	d := newDesk(t, open)
	for _, odd := range []string{"a\x00b", "\xff"} {
		_, err := d.c.Entity(d.ctx, d.namespace, odd)
		d.is("an entity", err, catalog.ErrNotFound)
		_, err = d.c.Entity(d.ctx, odd, "alice")
		d.is("an entity elsewhere", err, catalog.ErrNotFound)
		_, err = d.c.Tier(d.ctx, d.namespace, odd)
		d.is("a tier", err, catalog.ErrNotFound)
		_, err = d.c.Key(d.ctx, d.namespace, odd)
		d.is("a key", err, catalog.ErrNotFound)
		_, err = d.c.Namespace(d.ctx, odd)
		d.is("a namespace", err, catalog.ErrNotFound)
		d.is("deleting a tier", d.e.DeleteTier(d.ctx, odd, 0), catalog.ErrNotFound)
		d.is("deleting a key", d.e.DeleteKey(d.ctx, odd), catalog.ErrNotFound)
		d.is("removing an override", d.e.RemoveOverride(d.ctx, odd, "rpm", ""), catalog.ErrNotFound)
		_, err = d.c.Resolve(d.ctx, catalog.Subject{Namespace: odd, Entity: "alice"})
		d.is("resolving elsewhere", err, catalog.ErrNotFound)

		entities, err := d.c.Entities(d.ctx, d.namespace, catalog.EntityQuery{Parent: odd})
		d.no(err)
		keys, err := d.c.Keys(d.ctx, d.namespace, odd, "", 0)
		d.no(err)
		limits, err := d.c.ListLimits(d.ctx, d.namespace, catalog.LimitsQuery{Entity: odd})
		d.no(err)
		overrides, err := d.c.Overrides(d.ctx, d.namespace, odd, "", 0)
		d.no(err)
		events, err := d.c.Audit(d.ctx, d.namespace, catalog.AuditQuery{Subject: odd})
		d.no(err)
		used, err := d.c.Usage(d.ctx, d.namespace, catalog.UsedQuery{Entity: odd})
		d.no(err)
		sum, err := d.c.UsageSummary(d.ctx, odd, catalog.UsedQuery{})
		d.no(err)
		if n := len(entities.Entities) + len(keys.Keys) + len(limits.Limits) + len(overrides.Overrides) + len(events.Events) + len(used.Used) + len(sum.Used); n != 0 {
			t.Errorf("%q: %d things are found", odd, n)
		}
	}
}
