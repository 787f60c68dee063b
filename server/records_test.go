package server_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func TestUsage(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "100/hour"), 0))(t)
	for _, entity := range []string{"alice", "bob"} {
		for _, resource := range []string{"chat", "mail"} {
			must(c.Take(ctx, client.Take{Entity: entity, Resource: resource, Cost: sluice.Thousandths(tokens(3))}))(t)
		}
	}
	if err := s.recorder.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	page := must(c.Usage(ctx, catalog.UsedQuery{Entity: "alice"}))(t)
	if len(page.Used) != 2 || page.Used[0].Resource != "chat" || page.Used[0].Amount.Thousandths() != tokens(3) || page.Used[0].Start.IsZero() {
		t.Errorf("%+v", page)
	}
	if page = must(c.Usage(ctx, catalog.UsedQuery{Resource: "mail", Span: catalog.Daily, Max: 1}))(t); len(page.Used) != 1 || page.Next == "" {
		t.Errorf("%+v", page)
	}
	if page = must(c.Usage(ctx, catalog.UsedQuery{Resource: "mail", Span: catalog.Daily, Max: 1, Cursor: page.Next}))(t); len(page.Used) != 1 || page.Used[0].Entity != "bob" {
		t.Errorf("%+v", page)
	}
	sum := must(c.UsageSummary(ctx, catalog.UsedQuery{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}))(t)
	if len(sum.Used) != 4 {
		t.Errorf("%+v", sum)
	}
	for path, field := range map[string]string{
		"/v1/usage":                                     "entity",
		"/v1/usage?entity=a&by=year":                    "by",
		"/v1/usage?entity=a&from=yesterday":             "from",
		"/v1/usage?entity=a&to=2020-01-01T00:00:00":     "to",
		"/v1/usage/summary?max=0":                       "max",
		"/v1/audit?order=sideways":                      "order",
		"/v1/audit?namespaces=some":                     "namespaces",
		"/v1/audit/archive":                             "before",
		"/v1/audit/archive?before=2099-01-01T00:00:00Z": "before",
	} {
		if r := s.raw(t, "GET", path, "", bearer(adminToken)); r.status != 400 || r.json["field"] != field {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

func TestAuditAndItsArchive(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t).Because("ticket 7")
	ctx := t.Context()
	// Events of an hour ago, as only what has settled is archived.
	past := must(catalog.Open(ctx, catalog.Config{Store: s.records, Clock: func() time.Time { return time.Now().Add(-time.Hour) }}))(t)
	closes(t, past)
	for _, id := range []string{"old1", "old2"} {
		must(past.Edit("default", catalog.By{Actor: "past"}).CreateEntity(ctx, catalog.Entity{ID: id}))(t)
	}
	must(c.PutEntity(ctx, catalog.Entity{ID: "alice"}))(t)
	must(c.PutEntity(ctx, catalog.Entity{ID: "alice", Name: "A"}))(t)

	page := must(c.Audit(ctx, catalog.AuditQuery{Subject: "alice"}))(t)
	if len(page.Events) != 2 || page.Events[0].Action != "entity.update" || page.Events[0].Actor != "admin" || page.Events[0].Reason != "ticket 7" || page.Events[0].From != "127.0.0.1" {
		t.Errorf("%+v", page)
	}
	if oldest := must(c.Audit(ctx, catalog.AuditQuery{Oldest: true, Max: 1}))(t); oldest.Events[0].Subject != "old1" || oldest.Next == "" {
		t.Errorf("%+v", oldest)
	}
	before := time.Now().Add(-30 * time.Minute)
	var archive bytes.Buffer
	if err := c.ArchiveAudit(ctx, before, &archive); err != nil {
		t.Fatal(err)
	}
	plain := must(gzip.NewReader(&archive))(t)
	var subjects []string
	for lines := bufio.NewScanner(plain); lines.Scan(); {
		var e catalog.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, e.Subject)
	}
	if strings.Join(subjects, " ") != "old1 old2" {
		t.Errorf("the archive has %v", subjects)
	}
	var e *client.Error
	if err := c.ArchiveAudit(ctx, time.Now(), &archive); !errors.As(err, &e) || e.Field != "before" {
		t.Errorf("%v", err)
	}
	for _, n := range []int{1, 3} {
		if err := c.PruneArchivedAudit(ctx, before, n); !errors.As(err, &e) || e.Status != 412 {
			t.Errorf("with %d archived: %v", n, err)
		}
	}
	if page := must(c.Audit(ctx, catalog.AuditQuery{Subject: "old1"}))(t); len(page.Events) != 1 {
		t.Errorf("removed and not archived: %+v", page)
	}
	if err := c.PruneArchivedAudit(ctx, before, 2); err != nil {
		t.Error(err)
	}
	if n := must(c.PruneAudit(ctx, before))(t); n != 0 {
		t.Errorf("%d were removed", n)
	}
	if page := must(c.Audit(ctx, catalog.AuditQuery{Subject: "old1"}))(t); len(page.Events) != 0 {
		t.Errorf("%+v", page)
	}
}

const file = `version: 1
tiers:
  free: {default: {rpm: 10/minute}}
  pro: {default: {rpm: 100/minute}, limits: {chat: {tpm: 5000/minute}}}
default_tier: free
resources:
  chat: {limit: {tpm: 100/minute}}
  mail: {limit: {daily: 50/day UTC}}
entities:
  alice: {tier: pro}
`

func TestPlanAndApply(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	plan := must(c.Plan(ctx, "", strings.NewReader(file)))(t)
	if plan.Empty || plan.Applied || len(plan.Steps) == 0 || !strings.Contains(plan.Text, "+ tier pro") {
		t.Fatalf("%+v", plan)
	}
	if _, err := c.Tier(ctx, "pro"); !errors.Is(err, catalog.ErrNotFound) {
		t.Errorf("a plan has stored something: %v", err)
	}
	if done := must(c.Apply(ctx, "", strings.NewReader(file)))(t); !done.Applied || len(done.Steps) != len(plan.Steps) {
		t.Errorf("%+v", done)
	}
	stored := must(c.Limits(ctx, catalog.Scope{Tier: "pro", Resource: "chat"}))(t)
	if stored.Source != "limits" {
		t.Errorf("%+v", stored)
	}
	events := len(must(c.Audit(ctx, catalog.AuditQuery{Max: 1000}))(t).Events)
	// Twice is as once.
	if again := must(c.Apply(ctx, "", strings.NewReader(file)))(t); !again.Empty || len(again.Steps) != 0 {
		t.Errorf("%+v", again)
	}
	if n := len(must(c.Audit(ctx, catalog.AuditQuery{Max: 1000}))(t).Events); n != events {
		t.Errorf("applying it again has made %d events", n-events)
	}
	if got := must(c.Limits(ctx, catalog.Scope{Tier: "pro", Resource: "chat"}))(t); got.Version != stored.Version {
		t.Errorf("%+v, was %+v", got, stored)
	}
	// What the file no longer has goes.
	less := strings.Replace(file, "  mail:", "  post:", 1)
	if done := must(c.Apply(ctx, "", strings.NewReader(less)))(t); len(done.Steps) != 2 {
		t.Errorf("%+v", done)
	}
	// A wrong file changes nothing, and says where it is wrong.
	var e *client.Error
	_, err := c.Apply(ctx, "", strings.NewReader("version: 1\nresources:\n  mail: {limit: {rpm: fast}}\n"))
	if !errors.As(err, &e) || e.Status != 400 || !strings.Contains(e.Detail, "3") || !strings.Contains(e.Detail, "fast") {
		t.Errorf("%v", err)
	}
	// Another file does not take over what this one declares.
	if _, err := c.Apply(ctx, "other", strings.NewReader(file)); !errors.Is(err, catalog.ErrExists) {
		t.Errorf("%v", err)
	}
	// A file may say which namespace it is for.
	must(c.PutNamespace(ctx, "acme", ""))(t)
	must(c.Apply(ctx, "", strings.NewReader("namespace: acme\n"+file)))(t)
	if tier := must(c.In("acme").Tier(ctx, "pro"))(t); tier.Name != "pro" {
		t.Errorf("%+v", tier)
	}
	if _, err := c.In("default").Plan(ctx, "", strings.NewReader("namespace: acme\n"+file)); !errors.As(err, &e) || e.Field != "namespace" {
		t.Errorf("%v", err)
	}
}
