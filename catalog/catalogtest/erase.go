package catalogtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
)

func checkErase(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.fill()
	d.create(catalog.Entity{ID: "bob", Parent: "alice"})
	_, err := d.e.Erase(d.ctx, "alice", catalog.RefuseChildren)
	d.is("with children", err, catalog.ErrHasChildren)
	// Itself, two levels of limits, an override and a key; what made them.
	d.erases("alice", catalog.LiftChildren, catalog.Removed{Records: 5, Usage: 2, Events: 5})
	for what, list := range map[string]func() (int, error){
		"limits": func() (int, error) {
			p, err := d.c.ListLimits(d.ctx, d.namespace, catalog.LimitsQuery{Entity: "alice"})
			return len(p.Limits), err
		},
		"keys": func() (int, error) { p, err := d.c.Keys(d.ctx, d.namespace, "alice", "", 0); return len(p.Keys), err },
		"overrides": func() (int, error) {
			p, err := d.c.Overrides(d.ctx, d.namespace, "alice", "", 0)
			return len(p.Overrides), err
		},
		"usage": func() (int, error) {
			p, err := d.c.UsageSummary(d.ctx, d.namespace, catalog.UsedQuery{Entity: "alice", From: midnight, To: midnight.AddDate(0, 0, 1)})
			return len(p.Used), err
		},
	} {
		n, err := list()
		d.no(err)
		if n != 0 {
			t.Errorf("%d %s are left", n, what)
		}
	}
	events, err := d.c.Audit(d.ctx, d.namespace, catalog.AuditQuery{Subject: "alice"})
	d.no(err)
	if len(events.Events) != 1 || events.Events[0].Action != "entity.erase" || events.Events[0].Before != nil || events.Events[0].Actor != by.Actor {
		t.Errorf("events left: %+v", events.Events)
	}
	if len(events.Events) == 1 && strings.Contains(fmt.Sprintf("%+v", events.Events[0]), "alice") {
		t.Errorf("the name is left in %+v", events.Events[0])
	}
	wantIDs(t, "others", d.entityIDs(), "bob<team", "team<")
	d.erases("team", catalog.DeleteChildren, catalog.Removed{Records: 2, Events: 3})
	wantIDs(t, "after erasing the team", d.entityIDs())
	events, err = d.c.Audit(d.ctx, d.namespace, catalog.AuditQuery{Subject: "bob"})
	d.no(err)
	if len(events.Events) != 1 {
		t.Errorf("events left of a child: %+v", events.Events)
	}
	d.set(catalog.Scope{Entity: "203.0.113.9"}, "rpm", "1/s") // one without a record
	d.erases("203.0.113.9", catalog.RefuseChildren, catalog.Removed{Records: 1, Events: 1})
	_, err = d.c.Limits(d.ctx, d.namespace, catalog.Scope{Entity: "203.0.113.9"})
	d.is("limits of an entity without a record", err, catalog.ErrNotFound)
}

// checkEraseLate has a node write what it counted before an entity was erased,
// and another that had written before, and somebody new of the same name.
func checkEraseLate(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.create(catalog.Entity{ID: "alice"})
	late, err := catalog.NewRecorder(catalog.RecorderConfig{Store: d.store, Every: time.Minute})
	d.no(err)
	count := func(entity string, taken time.Time) {
		late.Consumed(sluice.Key{Namespace: d.namespace, Entity: entity, Resource: "chat", Limit: "rpm"}, sluice.Per(1, time.Second),
			sluice.Consumption{Amount: sluice.Tokens(1), Taken: taken, Take: true})
	}
	used := func(entity string) (total sluice.Amount) {
		page, err := d.c.UsageSummary(d.ctx, d.namespace, catalog.UsedQuery{Entity: entity, To: time.Now().Add(time.Hour)})
		d.no(err)
		for _, u := range page.Used {
			total = total.Add(u.Amount)
		}
		return total
	}
	for round := range 3 { // each time there is somebody new of that name
		count("alice", d.clock.Now())
		d.no(late.Flush(d.ctx))
		count("alice", d.clock.Now())
		count("bob", d.clock.Now())
		_, err = d.e.Erase(d.ctx, "alice", catalog.RefuseChildren)
		d.no(err)
		d.no(late.Flush(d.ctx))
		if got := used("alice"); !got.IsZero() {
			t.Errorf("round %d: a node wrote back %s", round, got)
		}
		if got, want := used("bob"), sluice.Tokens(int64(round+1)); got != want {
			t.Errorf("round %d: bob has used %s, want %s", round, got, want)
		}
		count("alice", d.clock.Now())
		d.no(late.Flush(d.ctx))
		if got := used("alice"); got != sluice.Tokens(1) {
			t.Errorf("round %d: somebody new has used %s, want 1", round, got)
		}
	}
	_, err = d.e.Erase(d.ctx, "alice", catalog.RefuseChildren)
	d.no(err)
	count("alice", d.clock.Now().Add(time.Minute)) // by somebody new, before the node has heard of it
	d.no(late.Flush(d.ctx))
	if got := used("alice"); got != sluice.Tokens(1) {
		t.Errorf("somebody new has used %s a minute later, want 1", got)
	}
	d.no(late.Close())
}

func (d *desk) erases(id string, children catalog.Children, want catalog.Removed) {
	d.t.Helper()
	got, err := d.e.Erase(d.ctx, id, children)
	d.no(err)
	if got != want {
		d.t.Errorf("erasing %s removed %+v, want %+v", id, got, want)
	}
}
