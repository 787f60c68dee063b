package server_test

import (
	"errors"
	"testing"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/schedule"
)

// TestSlotsOfNamespaces has one event in three namespaces, which know nothing of
// each other.
func TestSlotsOfNamespaces(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	for _, name := range []string{"", "acme", "bolt"} {
		in := c.In(name)
		if name != "" {
			if _, err := in.SetSlotPlan(ctx, schedule.Plan{Name: "mail"}); !errors.Is(err, catalog.ErrNotFound) {
				t.Errorf("a plan in a namespace that is not there: %v", err)
			}
			must(c.PutNamespace(ctx, name, ""))(t)
		}
		must(in.SetSlotPlan(ctx, schedule.Plan{Name: "mail" + name}))(t)
		if slot := must(in.AssignSlot(ctx, schedule.Request{Event: "order", Plan: "mail" + name}))(t); slot.Existing {
			t.Errorf("%q: %+v", name, slot)
		}
	}
	key := must(c.In("acme").CreateKey(ctx, catalog.Key{Entity: "alice", Scopes: []string{"sluice:admin"}}, true))(t)
	for name, as := range map[string]*client.Client{"": c.In(catalog.DefaultNamespace), "acme": s.as(t, key.Secret), "bolt": c.In("bolt")} {
		if page := must(as.SlotPlans(ctx, client.Page{}))(t); len(page.Plans) != 1 || page.Plans[0].Name != "mail"+name {
			t.Errorf("%q: %+v", name, page)
		}
		if slot := must(as.Slot(ctx, "order"))(t); slot.Plan != "mail"+name {
			t.Errorf("%q: %+v", name, slot)
		}
	}
	must(s.as(t, key.Secret).CancelSlot(ctx, "order", ""))(t)
	if slot := must(c.In("bolt").Slot(ctx, "order"))(t); slot.State != schedule.Waiting {
		t.Errorf("%+v", slot)
	}
	if erased := must(c.DeleteNamespace(ctx, "bolt"))(t); erased.Slots != 1 {
		t.Errorf("%+v", erased)
	}
	if _, err := c.In("bolt").SlotPlans(ctx, client.Page{}); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("plans of a namespace that is gone: %v", err)
	}
	if slot := must(c.Slot(ctx, "order"))(t); slot.State != schedule.Waiting {
		t.Errorf("%+v", slot)
	}
}
