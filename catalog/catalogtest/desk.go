package catalogtest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/testclock"
)

// desk is a catalog on the store under check, with a namespace of its own.
type desk struct {
	t         *testing.T
	ctx       context.Context
	store     catalog.Store
	c         *catalog.Catalog
	e         *catalog.Editor
	namespace string
	clock     *testclock.Ahead // of the catalog
}

var by = catalog.By{Actor: "anna", From: "192.0.2.1", Reason: "check"}

func newDesk(t *testing.T, open Open) *desk {
	t.Helper()
	d := &desk{t: t, ctx: t.Context(), store: open(t), namespace: "desk-" + rand.Text(), clock: &testclock.Ahead{}}
	d.start(nil)
	d.no(d.e.CreateNamespace(d.ctx, "for a check"))
	return d
}

func (d *desk) start(secret []byte) {
	d.t.Helper()
	c, err := catalog.Open(d.ctx, catalog.Config{Store: d.store, Secret: secret, Clock: d.clock.Now})
	d.no(err)
	d.t.Cleanup(func() { d.no(c.Close()) })
	d.c, d.e = c, c.Edit(d.namespace, by)
}

// node is another node on the same database.
func (d *desk) node(open Open) *desk {
	d.t.Helper()
	o := *d
	o.store = open(d.t)
	o.start(nil)
	return &o
}

// beside is another namespace in the same catalog.
func (d *desk) beside() *desk {
	d.t.Helper()
	o := *d
	o.namespace = "beside-" + rand.Text()
	o.e = d.c.Edit(o.namespace, by)
	o.no(o.e.CreateNamespace(o.ctx, ""))
	return &o
}

// no stops the check at an error.
func (d *desk) no(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// is checks that an error is of a kind.
func (d *desk) is(what string, err, want error) {
	d.t.Helper()
	if !errors.Is(err, want) {
		d.t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// wrong checks that a mistake in a field is named.
func (d *desk) wrong(what string, err error) {
	d.t.Helper()
	var field *sluice.FieldError
	if !errors.As(err, &field) {
		d.t.Errorf("%s: got error %v, want one that names the field", what, err)
	}
}

// names checks that a mistake names its field and the value.
func (d *desk) names(what string, err error, field, value string) {
	d.t.Helper()
	var wrong *sluice.FieldError
	if !errors.As(err, &wrong) || wrong.Field != field || wrong.Value != value {
		d.t.Errorf("%s: got error %v, want one about %s %s", what, err, field, value)
	}
}

func (d *desk) create(e catalog.Entity) catalog.Entity {
	d.t.Helper()
	created, err := d.e.CreateEntity(d.ctx, e)
	d.no(err)
	return created
}

func (d *desk) tier(name string) {
	d.t.Helper()
	_, err := d.e.PutTier(d.ctx, catalog.Tier{Name: name})
	d.no(err)
}

// limits reads name, limit, name, limit, …
func limits(pairs ...string) catalog.Limits {
	l := catalog.Limits{}
	for i := 0; i < len(pairs); i += 2 {
		l[pairs[i]] = catalog.Setting{Limit: sluice.MustParse(pairs[i+1])}
	}
	return l
}

func (d *desk) set(s catalog.Scope, pairs ...string) {
	d.t.Helper()
	_, err := d.e.SetLimits(d.ctx, s, limits(pairs...), 0)
	d.no(err)
}

func (d *desk) resolve(entity, resource string) *catalog.Resolution {
	d.t.Helper()
	r, err := d.c.Resolve(d.ctx, catalog.Subject{Namespace: d.namespace, Entity: entity, Resource: resource})
	d.no(err)
	return r
}

// applies checks which limits apply, each as "entity/name limit level".
func (d *desk) applies(what, entity, resource string, want ...string) {
	d.t.Helper()
	wantIDs(d.t, what, tell(d.resolve(entity, resource)), want...)
}

func tell(r *catalog.Resolution) (lines []string) {
	for _, demand := range r.Demands(nil, r.Subject.Entity) {
		lines = append(lines, demand.Key.Entity+"/"+demand.Key.Limit+" "+demand.Limit.String()+" "+demand.Level.String())
	}
	return lines
}

// soon waits for another process or connection. How long that takes is logged,
// not judged: the machine may be busy.
func (d *desk) soon(what string, done func() bool) {
	d.t.Helper()
	began := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(began) > time.Minute {
			d.t.Fatalf("%s: not after a minute", what)
		}
		<-tick.C
	}
	d.t.Logf("%s: after %s", what, time.Since(began).Round(time.Millisecond))
}
