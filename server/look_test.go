package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func TestStatus(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "10/hour", "tpm", "100/hour"), 0))(t)
	must(c.PutEntity(ctx, catalog.Entity{ID: "team"}))(t)
	must(c.PutEntity(ctx, catalog.Entity{ID: "alice", Parent: "team", Cascade: true}))(t)
	for range 10 {
		must(c.Take(ctx, client.Take{Entity: "alice", Resource: "chat"}))(t)
	}
	must(c.Take(ctx, client.Take{Entity: "alice", Resource: "chat"}))(t) // refused
	must(c.Take(ctx, client.Take{Entity: "alice", Resource: "mail"}))(t)

	st := must(c.Status(ctx, client.Subject{Entity: "alice", Resource: "chat"}))(t)
	if st.Alarm != catalog.AlarmCritical || len(st.Limits) != 4 {
		t.Fatalf("%+v", st)
	}
	rpm := st.Limits[0]
	if rpm.Limit != "rpm" || rpm.Entity != "alice" || rpm.Capacity.Thousandths() != tokens(10) || rpm.Remaining.Thousandths() != 0 || rpm.Utilization != 100 ||
		rpm.Alarm != catalog.AlarmCritical || rpm.Level != "system" || rpm.ResetAfter != time.Hour || !rpm.Upgrade {
		t.Errorf("%+v", rpm)
	}
	if *rpm.Node != (client.Node{Allowed: 10, Refused: 1}) || rpm.Source != "store" || rpm.Unknown {
		t.Errorf("%+v", rpm)
	}
	if parent := st.Limits[2]; parent.Entity != "team" || parent.Limit != "rpm" {
		t.Errorf("%+v", parent)
	}
	// Without a resource it is about all that are in use.
	all := must(c.Status(ctx, client.Subject{Entity: "alice"}))(t)
	if len(all.Limits) != 8 || all.Limits[0].Resource != "chat" || all.Limits[4].Resource != "mail" || all.Alarm != catalog.AlarmCritical {
		t.Errorf("%+v", all)
	}
	if nobody := must(c.Status(ctx, client.Subject{Entity: "nobody"}))(t); len(nobody.Limits) != 2 || nobody.Alarm != catalog.AlarmNone {
		t.Errorf("%+v", nobody)
	}
}

func TestBucketsInPages(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "10/hour"), 0))(t)
	for i := range 7 {
		must(c.Take(ctx, client.Take{Entity: fmt.Sprintf("e%d", i), Resource: "chat", Cost: sluice.Thousandths(tokens(int64(i + 1)))}))(t)
	}
	must(c.Take(ctx, client.Take{Entity: "e0", Resource: "mail"}))(t)
	found := map[string]client.Bucket{}
	pages := 0
	for q := (client.BucketQuery{Resource: "chat", Page: client.Page{Max: 3}}); ; pages++ {
		page := must(c.Buckets(ctx, q))(t)
		if len(page.Buckets) > 3 {
			t.Errorf("%d on a page of 3", len(page.Buckets))
		}
		for _, b := range page.Buckets {
			found[b.Entity] = b
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if len(found) != 7 || pages < 2 {
		t.Errorf("%d pages of %v", pages, found)
	}
	b := found["e6"]
	if b.Remaining.Thousandths() != tokens(3) || b.Consumed.Thousandths() != tokens(7) || b.Utilization != 70 || b.Alarm != catalog.AlarmWarning || b.Node.Allowed != 1 ||
		b.Rule != sluice.MustParse("10/hour") || b.ResetAfter != 42*time.Minute {
		t.Errorf("%+v", b)
	}
	if page := must(c.Buckets(ctx, client.BucketQuery{Entity: "e0"}))(t); len(page.Buckets) != 2 {
		t.Errorf("%+v", page)
	}
}

func TestExplainSaysWhatIsHidden(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "10/hour", "tpm", "100/hour"), 0))(t)
	must(c.SetLimits(ctx, catalog.Scope{Entity: "alice"}, limits("tpm", "50/hour"), 0))(t)
	e := must(c.Explain(ctx, client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(60))}))(t)
	if len(e.Applied) != 1 || e.Applied[0].Level != "entity" || e.Applied[0].Kept != catalog.FromStore || len(e.Warnings) != 1 ||
		e.Decision.Allowed || e.Decision.RetryAfter != sluice.Never {
		t.Errorf("%+v", e)
	}
	must(c.Take(ctx, client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(50))}))(t) // nothing was consumed before
	if err := c.RemoveLimits(ctx, catalog.Scope{Entity: "alice"}, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.RemoveLimits(ctx, catalog.Scope{}, 0); err != nil {
		t.Fatal(err)
	}
	if e := must(c.Explain(ctx, client.Take{Entity: "alice"}))(t); e.Decision != nil || len(e.Applied) != 0 {
		t.Errorf("%+v", e)
	}
}
