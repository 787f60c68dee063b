package server_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/idempotency"
)

// odd are names that get lost easily on the way.
var odd = []string{"a/b", "50%", "%2F", "100%25", "über/日本", "a b", "a+b", "a?b=c", "a#b", ".", "..", "../x", "a;b", `"quoted"`, `back\slash`, "<b>&amp;", "me@example.com", "2001:db8::1/64"}

func TestNamesSurviveTheWay(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "100/minute"), 0))(t)
	for _, name := range odd {
		if e := must(c.PutEntity(ctx, catalog.Entity{ID: name, Name: "the " + name}))(t); e.ID != name {
			t.Errorf("%q is stored as %q", name, e.ID)
		}
		if e := must(c.Entity(ctx, name))(t); e.ID != name || e.Name != "the "+name {
			t.Errorf("%q is read as %q", name, e.ID)
		}
		scope := catalog.Scope{Entity: name, Resource: name}
		must(c.SetLimits(ctx, scope, limits("rpm", "7/minute"), 0))(t)
		if l := must(c.Limits(ctx, scope))(t); l.Scope != scope {
			t.Errorf("%q: limits of %+v", name, l.Scope)
		}
		must(c.SetLimits(ctx, catalog.Scope{Resource: name}, limits("rpm", "8/minute"), 0))(t)
		d := must(c.Take(ctx, client.Take{Entity: name, Resource: name}))(t)
		if k := d.Demands[0].Key; k.Entity != name || k.Resource != name || d.Results[0].Remaining.Thousandths() != tokens(6) {
			t.Errorf("%q: %+v", name, d)
		}
		if st := must(c.Status(ctx, client.Subject{Entity: name, Resource: name}))(t); st.Entity != name || st.Resource != name || st.Limits[0].Remaining.Thousandths() != tokens(6) {
			t.Errorf("%q: %+v", name, st)
		}
		if b := must(c.Buckets(ctx, client.BucketQuery{Entity: name, Resource: name}))(t); len(b.Buckets) != 1 || b.Buckets[0].Entity != name {
			t.Errorf("%q: %+v", name, b)
		}
		if err := c.DeleteEntity(ctx, name, 0, catalog.RefuseChildren); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestEntities(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.PutTier(ctx, catalog.Tier{Name: "pro"}))(t)
	team := must(c.CreateEntity(ctx, catalog.Entity{ID: "team", Metadata: map[string]string{"plan": "x"}}))(t)
	if team.Version == 0 || team.Created.IsZero() || team.Metadata["plan"] != "x" {
		t.Errorf("%+v", team)
	}
	if _, err := c.CreateEntity(ctx, catalog.Entity{ID: "team"}); !errors.Is(err, catalog.ErrExists) {
		t.Errorf("%v", err)
	}
	for i := range 5 {
		must(c.CreateEntity(ctx, catalog.Entity{ID: fmt.Sprintf("m%d", i), Parent: "team", Cascade: true, Tier: "pro"}))(t)
	}
	// Putting the same twice is as once, and a version that has passed is refused.
	one := must(c.PutEntity(ctx, catalog.Entity{ID: "m0", Name: "first", Parent: "team"}))(t)
	if again := must(c.PutEntity(ctx, catalog.Entity{ID: "m0", Name: "first", Parent: "team", Version: one.Version}))(t); again.Name != "first" {
		t.Errorf("%+v", again)
	}
	if _, err := c.PutEntity(ctx, catalog.Entity{ID: "m0", Name: "late", Version: one.Version}); !errors.Is(err, catalog.ErrConflict) {
		t.Errorf("%v", err)
	}
	if _, err := c.PutEntity(ctx, catalog.Entity{ID: "nobody", Version: 3}); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if err := c.DeleteEntity(ctx, "m0", one.Version, catalog.RefuseChildren); !errors.Is(err, catalog.ErrConflict) {
		t.Errorf("%v", err)
	}
	for _, bad := range []catalog.Entity{{ID: "x", Tier: "gold"}, {ID: "x", Parent: "nobody"}, {ID: "m1", Tier: "gold"}} {
		var e *client.Error
		if _, err := c.PutEntity(ctx, bad); !errors.As(err, &e) || e.Status != 422 || e.Code != "no_such_reference" {
			t.Errorf("%+v: %v", bad, err)
		}
	}

	var pages [][]string
	for page := (client.Page{Max: 2}); ; {
		got := must(c.Entities(ctx, client.EntityQuery{Parent: "team", Page: page}))(t)
		var ids []string
		for _, e := range got.Entities {
			ids = append(ids, e.ID)
		}
		pages = append(pages, ids)
		if page.Cursor = got.Next; page.Cursor == "" {
			break
		}
	}
	if fmt.Sprint(pages) != "[[m0 m1] [m2 m3] [m4]]" {
		t.Errorf("pages are %v", pages)
	}
	if got := must(c.Entities(ctx, client.EntityQuery{Tier: "pro"}))(t); len(got.Entities) != 4 {
		t.Errorf("%+v", got)
	}
	if err := c.DeleteTier(ctx, "pro", 0); !errors.Is(err, catalog.ErrInUse) {
		t.Errorf("%v", err)
	}
	if err := c.DeleteEntity(ctx, "team", 0, catalog.RefuseChildren); !errors.Is(err, catalog.ErrHasChildren) {
		t.Errorf("%v", err)
	}
	if err := c.DeleteEntity(ctx, "team", 0, catalog.LiftChildren); err != nil {
		t.Error(err)
	}
	if e := must(c.Entity(ctx, "m1"))(t); e.Parent != "" {
		t.Errorf("%+v", e)
	}
}

func TestETags(t *testing.T) {
	s := stage(t, nil)
	admin := bearer(adminToken)
	r := s.raw(t, "PUT", "/v1/tiers/pro", `{"description":"one"}`, admin)
	tag := r.header.Get("ETag")
	if r.status != 200 || !strings.HasPrefix(tag, `"`) {
		t.Fatalf("%d %s %s", r.status, tag, r.body)
	}
	if got := s.raw(t, "GET", "/v1/tiers/pro", "", admin); got.header.Get("ETag") != tag {
		t.Errorf("%s and %s", got.header.Get("ETag"), tag)
	}
	admin["If-Match"] = tag
	if r = s.raw(t, "PUT", "/v1/tiers/pro", `{"description":"two"}`, admin); r.status != 200 || r.header.Get("ETag") == tag {
		t.Errorf("%d %s %s", r.status, r.header.Get("ETag"), r.body)
	}
	for _, method := range []string{"PUT", "DELETE"} {
		if r := s.raw(t, method, "/v1/tiers/pro", `{"description":"three"}`, admin); r.status != 412 || r.json["code"] != "changed" {
			t.Errorf("%s: %d %s", method, r.status, r.body)
		}
	}
	admin["If-Match"] = "*"
	if r := s.raw(t, "PUT", "/v1/tiers/pro", `{"description":"four"}`, admin); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	admin["If-Match"] = "W/x"
	if r := s.raw(t, "PUT", "/v1/tiers/pro", `{}`, admin); r.status != 400 || r.json["field"] != "If-Match" {
		t.Errorf("%d %s", r.status, r.body)
	}
	// Where it cannot be minded it is refused rather than passed over.
	admin["If-Match"] = `"1"`
	if r := s.raw(t, "PUT", "/v1/overrides/alice/rpm", `{"rule":"1/s","for":"1h","reason":"x"}`, admin); r.status != 400 || r.json["field"] != "If-Match" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestLimitsAtEveryLevel(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t).Because("a test")
	ctx := t.Context()
	must(c.PutTier(ctx, catalog.Tier{Name: "pro", Description: "the plan"}))(t)
	must(c.PutEntity(ctx, catalog.Entity{ID: "alice", Tier: "pro"}))(t)
	take := client.Take{Entity: "alice", Resource: "chat"}
	scopes := []struct {
		scope catalog.Scope
		from  string
	}{
		{catalog.Scope{}, "system"},
		{catalog.Scope{Resource: "chat"}, "resource"},
		{catalog.Scope{Tier: "pro"}, "tier"},
		{catalog.Scope{Tier: "pro", Resource: "chat"}, "tier+resource"},
		{catalog.Scope{Entity: "alice"}, "entity"},
		{catalog.Scope{Entity: "alice", Resource: "chat"}, "entity+resource"},
	}
	for i, at := range scopes {
		set := limits("rpm", fmt.Sprintf("%d/minute", 10+i))
		setting := set["rpm"]
		setting.OnUnavailable, setting.Critical = sluice.Deny, true
		set["rpm"] = setting
		stored := must(c.SetLimits(ctx, at.scope, set, 0))(t)
		if got := must(c.Limits(ctx, at.scope))(t); got.Version != stored.Version || got.Limits["rpm"] != set["rpm"] || got.Scope != at.scope {
			t.Errorf("%s: %+v", at.from, got)
		}
		if _, err := c.SetLimits(ctx, at.scope, set, stored.Version+1); !errors.Is(err, catalog.ErrConflict) {
			t.Errorf("%s: %v", at.from, err)
		}
		if d := must(c.Peek(ctx, take))(t); d.Demands[0].Level.String() != at.from || d.Demands[0].Limit != set["rpm"].Limit {
			t.Errorf("%s does not apply: %+v", at.from, d.Demands)
		}
	}
	for level, want := range map[string]int{"entity": 2, "tier": 2, "resource": 1, "system": 1, "": 2} {
		if got := must(c.ListLimits(ctx, client.LimitsQuery{Level: level}))(t); len(got.Limits) != want {
			t.Errorf("level %q: %+v", level, got)
		}
	}
	if got := must(c.ListLimits(ctx, client.LimitsQuery{Resource: "chat"}))(t); len(got.Limits) != 1 || got.Limits[0].Entity != "alice" {
		t.Errorf("%+v", got)
	}

	// An override beats them all, and ends.
	until := time.Now().Add(time.Hour)
	o := must(c.SetOverride(ctx, catalog.Override{Entity: "alice", Limit: "rpm", Setting: limits("rpm", "99/minute")["rpm"], Until: until}))(t)
	if o.Reason != "a test" || o.By != "admin" {
		t.Errorf("%+v", o)
	}
	if d := must(c.Peek(ctx, take))(t); d.Demands[0].Limit != sluice.MustParse("99/minute") {
		t.Errorf("%+v", d.Demands)
	}
	explained := must(c.Explain(ctx, take))(t)
	if explained.Tier != "pro" || !explained.Known || explained.Applied[0].Kept != catalog.FromOverride || explained.Applied[0].Reason != "a test" ||
		explained.Decision == nil || !strings.Contains(explained.Text, "99/minute") {
		t.Errorf("%+v", explained)
	}
	if got := must(c.Overrides(ctx, "alice", client.Page{}))(t); len(got.Overrides) != 1 {
		t.Errorf("%+v", got)
	}
	if err := c.RemoveOverride(ctx, "alice", "rpm", ""); err != nil {
		t.Error(err)
	}
	if err := c.RemoveOverride(ctx, "alice", "rpm", ""); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("%v", err)
	}

	for _, at := range slices.Backward(scopes) {
		if d := must(c.Peek(ctx, take))(t); d.Demands[0].Level.String() != at.from {
			t.Errorf("%s does not apply: %+v", at.from, d.Demands)
		}
		if err := c.RemoveLimits(ctx, at.scope, 0); err != nil {
			t.Errorf("%s: %v", at.from, err)
		}
		if _, err := c.Limits(ctx, at.scope); !errors.Is(err, catalog.ErrNotFound) {
			t.Errorf("%s: %v", at.from, err)
		}
	}
	if got := must(c.Tiers(ctx, client.Page{}))(t); len(got.Tiers) != 1 || got.Tiers[0].Description != "the plan" {
		t.Errorf("%+v", got)
	}
	if tier := must(c.Tier(ctx, "pro"))(t); tier.Name != "pro" {
		t.Errorf("%+v", tier)
	}
	must(c.PutEntity(ctx, catalog.Entity{ID: "alice"}))(t)
	if err := c.DeleteTier(ctx, "pro", 0); err != nil {
		t.Error(err)
	}
}

func TestBadSettings(t *testing.T) {
	s := stage(t, nil)
	admin := bearer(adminToken)
	for _, c := range []struct{ path, body, field, detail string }{
		{"/v1/limits/system", `{"limits":{"rpm":{"rule":"fast"}}}`, "limits.rpm.rule", "want for example"},
		{"/v1/limits/system", `{"limits":{"rpm":"slow"}}`, "limits.rpm.rule", "want for example"},
		{"/v1/limits/system", `{"limits":{"rpm":{"rule":"1/s","shade":true}}}`, "body", `unknown field "shade"`},
		{"/v1/limits/system", `{"limits":{"rpm":1}}`, "body", "must be an object"},
		{"/v1/limits/system", `{"limits":{"rpm":{"rule":"1/s","onUnavailable":"pray"}}}`, "limits.rpm.onUnavailable", "degrade"},
		{"/v1/limits/system", `{"limits":{"r p":{"rule":"1/s"}}}`, "limits", "letters"},
		{"/v1/limits/system", `{"limits":{}}`, "limits", "1 to 8"},
		{"/v1/limits/system", `{}`, "limits", "1 to 8"},
		{"/v1/limits/system", `{"limit":{}}`, "body", "there are limits"},
		{"/v1/overrides/alice/rpm", `{"rule":"1/s","for":"1h","reason":"x","shade":true}`, "body", "rule, onUnavailable, critical, shadow, announce, resource, until, for, reason"},
		{"/v1/overrides/alice/rpm", `{"rule":"1/s","for":"1h"}`, "reason", "why"},
		{"/v1/overrides/alice/rpm", `{"rule":"1/s","reason":"x"}`, "until", "in the future"},
		{"/v1/overrides/alice/rpm", `{"rule":"1/s","reason":"x","for":"1h","until":"2099-01-01T00:00:00Z"}`, "for", "combined with until"},
		{"/v1/overrides/alice/rpm", `{"rule":"1/s","reason":"x","for":"9000h"}`, "until", "a year"},
		{"/v1/overrides/alice/rpm", `{"rule":"","reason":"x","for":"1h"}`, "rule", "want for example"},
		{"/v1/entities/alice", `{"id":"bob"}`, "id", "that of the path"},
		{"/v1/entities/alice", `{"cascade":true}`, "cascade", "parent"},
		{"/v1/entities/%24x", `{}`, "id", "must not begin with $"},
		{"/v1/entities/alice", `{"metadata":{"a":1}}`, "metadata", "must be a string"},
		{"/v1/tiers/a%20b", `{}`, "name", "letters"},
		{"/v1/namespaces/a%20b", `{}`, "namespace", "letters"},
	} {
		r := s.raw(t, "PUT", c.path, c.body, admin)
		detail, _ := r.json["detail"].(string)
		if r.status != 400 || r.json["code"] != "invalid" || r.json["field"] != c.field || !strings.Contains(detail, c.detail) {
			t.Errorf("%s %s: got %d %s", c.path, c.body, r.status, r.body)
		}
	}
}

func TestNamespacesDoNotLeak(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	if n := must(c.PutNamespace(ctx, "acme", "the first tenant"))(t); n.Description != "the first tenant" {
		t.Errorf("%+v", n)
	}
	if n := must(c.PutNamespace(ctx, "acme", "again"))(t); n.Description != "the first tenant" { // stays
		t.Errorf("%+v", n)
	}
	must(c.PutNamespace(ctx, "bolt", ""))(t)
	if all := must(c.Namespaces(ctx, client.Page{}))(t); len(all.Namespaces) != 3 {
		t.Errorf("%+v", all)
	}
	acme, bolt := c.In("acme"), c.In("bolt")
	for _, ns := range []*client.Client{acme, bolt} {
		must(ns.SetLimits(ctx, catalog.Scope{}, limits("rpm", "5/hour"), 0))(t)
	}
	must(acme.PutEntity(ctx, catalog.Entity{ID: "alice"}))(t)
	must(acme.SetLimits(ctx, catalog.Scope{Entity: "alice"}, limits("rpm", "3/hour"), 0))(t)
	key := must(acme.CreateKey(ctx, catalog.Key{Entity: "alice", Scopes: []string{"sluice:admin"}}, true))(t)
	must(acme.Take(ctx, client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(2))}))(t)
	if err := s.recorder.Flush(ctx); err != nil {
		t.Fatal(err)
	}

	// The other tenant sees none of it.
	if _, err := bolt.Entity(ctx, "alice"); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := bolt.Key(ctx, key.ID); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if page := must(bolt.Keys(ctx, "", client.Page{}))(t); len(page.Keys) != 0 {
		t.Errorf("%+v", page)
	}
	if page := must(bolt.Buckets(ctx, client.BucketQuery{}))(t); len(page.Buckets) != 0 {
		t.Errorf("%+v", page)
	}
	if page := must(bolt.UsageSummary(ctx, catalog.UsedQuery{}))(t); len(page.Used) != 0 {
		t.Errorf("%+v", page)
	}
	if page := must(bolt.ListLimits(ctx, client.LimitsQuery{}))(t); len(page.Limits) != 0 {
		t.Errorf("%+v", page)
	}
	for _, e := range must(bolt.Audit(ctx, catalog.AuditQuery{}))(t).Events {
		if e.Namespace != "bolt" || e.Subject == "alice" {
			t.Errorf("%+v", e)
		}
	}
	if d := must(bolt.Take(ctx, client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(5))}))(t); !d.Allowed {
		t.Errorf("%+v", d)
	}

	// A key opens its own namespace alone, whatever it asks for.
	holder := s.as(t, key.Secret)
	if d := must(holder.Peek(ctx, client.Take{Entity: "alice"}))(t); d.Results[0].Remaining.Thousandths() != tokens(1) {
		t.Errorf("%+v", d)
	}
	for name, try := range map[string]func() error{
		"take":       func() error { _, err := holder.In("bolt").Take(ctx, client.Take{Entity: "alice"}); return err },
		"entities":   func() error { _, err := holder.In("default").Entities(ctx, client.EntityQuery{}); return err },
		"namespaces": func() error { _, err := holder.Namespaces(ctx, client.Page{}); return err },
		"namespace":  func() error { _, err := holder.Namespace(ctx, "acme"); return err },
		"create":     func() error { _, err := holder.PutNamespace(ctx, "mine", ""); return err },
		"delete":     func() error { _, err := holder.DeleteNamespace(ctx, "bolt"); return err },
		"everyone":   func() error { _, err := holder.ReplayStats(ctx, idempotency.Query{Everyone: true}); return err },
		"slots":      func() error { _, err := holder.In("bolt").SlotPlans(ctx, client.Page{}); return err },
		"events":     func() error { _, err := holder.NamespaceAudit(ctx, catalog.AuditQuery{}); return err },
		"apply": func() error {
			_, err := holder.Apply(ctx, "x", strings.NewReader("version: 1\nnamespace: bolt\nsystem: {limit: 1/s}\n"))
			return err
		},
	} {
		var e *client.Error
		if err := try(); !errors.As(err, &e) || e.Status != 403 && !(name == "apply" && e.Status == 400) {
			t.Errorf("%s: %v", name, err)
		}
	}

	must(c.DeleteNamespace(ctx, "acme"))(t)
	if _, err := c.Namespace(ctx, "acme"); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := holder.Peek(ctx, client.Take{Entity: "alice"}); !errors.Is(err, catalog.ErrKey) {
		t.Errorf("the key of a namespace that is gone: %v", err)
	}
	if n := must(c.Namespace(ctx, "bolt"))(t); n.Name != "bolt" {
		t.Errorf("%+v", n)
	}
	events := must(c.NamespaceAudit(ctx, catalog.AuditQuery{}))(t).Events
	if len(events) == 0 || events[0].Action != "namespace.delete" || events[0].Actor != "admin" {
		t.Errorf("%+v", events)
	}
}

// TestFlushCache: after a flush the next take reads its limits anew.
func TestFlushCache(t *testing.T) {
	s := stage(t, nil)
	c, ctx := s.admin(t), t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "100/minute"), 0))(t)
	ask := func() int64 {
		before := s.catalog.Stats().Resolutions.Misses
		must(c.Take(ctx, client.Take{Entity: "alice", Resource: "api"}))(t)
		return s.catalog.Stats().Resolutions.Misses - before
	}
	ask()
	if n := ask(); n != 0 {
		t.Fatalf("%d look-ups, though the answer is known", n)
	}
	if err := c.FlushCache(ctx); err != nil {
		t.Fatal(err)
	}
	if n := ask(); n == 0 {
		t.Error("the answer from before the flush counts")
	}
}
