package catalogtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/internal/testclock"
)

func namespaceChecks() []Check {
	return []Check{
		{"namespaces: create, list, delete", checkNamespaces},
		{"namespaces: nothing leaks by any method", checkLeaks},
		{"erasing leaves nothing", checkErase},
		{"nodes write nothing back", checkEraseLate},
		{"audit: who, what, before, after", checkAudit},
		{"audit: archive and prune", checkArchive},
		{"usage: counted once whatever goes wrong", checkRecorder},
		{"made-up names are bounded", checkMadeUpNames},
	}
}

func checkNamespaces(t *testing.T, open Open) {
	d := newDesk(t, open)
	d.is("creating it again", d.e.CreateNamespace(d.ctx, ""), catalog.ErrExists)
	d.create(catalog.Entity{ID: "alice"})
	d.set(catalog.Scope{}, "rpm", "1/s")
	_, clear := d.key(catalog.Key{Entity: "alice"})
	_, err := d.c.VerifyKey(d.ctx, clear)
	d.no(err)
	d.no(d.store.AddUsage(d.ctx, &catalog.UsageBatch{Node: d.namespace, Seq: 1, Rows: []catalog.UsageRow{
		{Namespace: d.namespace, Entity: "alice", Span: catalog.Hourly, Start: midnight, Amount: 1, Count: 1}}}))
	other := d.node(open)
	other.resolve("alice", "")

	found := false
	for cursor := ""; ; {
		page, err := d.c.Namespaces(d.ctx, cursor, 2)
		d.no(err)
		for _, n := range page.Namespaces {
			found = found || n.Name == d.namespace && n.Description == "for a check"
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if !found {
		t.Error("the namespace is not in the list")
	}
	gone := func(d *desk) bool {
		_, err := d.c.Resolve(d.ctx, catalog.Subject{Namespace: d.namespace, Entity: "alice"})
		_, keyErr := d.c.VerifyKey(d.ctx, clear)
		return errors.Is(err, catalog.ErrNotFound) && errors.Is(keyErr, catalog.ErrKey)
	}
	closed, err := d.e.CloseNamespace(d.ctx)
	d.no(err)
	again, err := d.e.CloseNamespace(d.ctx)
	d.no(err)
	if !closed.Deleting || time.Since(closed.Closed).Abs() > time.Minute || again != closed {
		t.Errorf("closed: %+v, and again: %+v", closed, again)
	}
	if !gone(d) {
		t.Error("a closed namespace is still in use here")
	}
	other.soon("closed elsewhere", func() bool { return gone(other) })
	_, err = d.e.CreateEntity(d.ctx, catalog.Entity{ID: "bob"})
	d.is("a change in a closed namespace", err, catalog.ErrNotFound)
	d.is("creating a closed namespace", d.e.CreateNamespace(d.ctx, ""), catalog.ErrExists)
	removed, err := d.e.DeleteNamespace(d.ctx)
	d.no(err)
	if removed.Records < 3 || removed.Usage != 1 || removed.Events != 3 {
		t.Errorf("removed: %+v", removed)
	}
	if !gone(d) || !gone(other) {
		t.Error("a deleted namespace is in use")
	}
	_, err = d.e.CreateEntity(d.ctx, catalog.Entity{ID: "bob"})
	d.is("a change in a deleted namespace", err, catalog.ErrNotFound)
	_, err = d.e.DeleteNamespace(d.ctx)
	d.is("deleting it again", err, catalog.ErrNotFound)
	_, err = d.c.Edit(catalog.DefaultNamespace, by).CloseNamespace(d.ctx)
	d.wrong("closing the default namespace", err)
	_, err = d.c.Edit(catalog.DefaultNamespace, by).DeleteNamespace(d.ctx)
	d.wrong("deleting the default namespace", err)
	events, err := d.c.Audit(d.ctx, "", catalog.AuditQuery{Subject: "$NAMESPACE:" + d.namespace, Oldest: true})
	d.no(err)
	var actions []string
	for _, e := range events.Events {
		actions = append(actions, e.Action)
	}
	wantIDs(t, "what is known of it", actions, "namespace.create", "namespace.deleting", "namespace.delete")
	// Made anew, it is empty.
	d.no(d.e.CreateNamespace(d.ctx, ""))
	if text := d.everything(d.ctx); text != "" {
		t.Errorf("a namespace made anew has:\n%s", text)
	}
}

// everything is all that can be read in a namespace, by every method that
// reads, as text; "" if there is nothing.
func (d *desk) everything(ctx context.Context) string {
	d.t.Helper()
	var b strings.Builder
	add := func(what string, v any, n int, err error) {
		d.t.Helper()
		if err != nil {
			d.t.Fatalf("%s: %v", what, err)
		}
		if n > 0 {
			text, err := json.Marshal(v)
			d.no(err)
			fmt.Fprintf(&b, "%s: %s\n", what, text)
		}
	}
	ns := d.namespace
	from, to := midnight.AddDate(-1, 0, 0), midnight.AddDate(1, 0, 0)
	entities, err := d.c.Entities(ctx, ns, catalog.EntityQuery{})
	add("entities", entities, len(entities.Entities), err)
	children, err := d.c.Entities(ctx, ns, catalog.EntityQuery{Parent: "team"})
	add("children", children, len(children.Entities), err)
	inTier, err := d.c.Entities(ctx, ns, catalog.EntityQuery{Tier: "pro"})
	add("entities of a tier", inTier, len(inTier.Entities), err)
	tiers, err := d.c.Tiers(ctx, ns, "", 0)
	add("tiers", tiers, len(tiers.Tiers), err)
	for _, level := range []sluice.Level{sluice.LevelEntity, sluice.LevelTier, sluice.LevelResource, sluice.LevelSystem} {
		l, err := d.c.ListLimits(ctx, ns, catalog.LimitsQuery{Level: level})
		add("limits", l, len(l.Limits), err)
	}
	onChat, err := d.c.ListLimits(ctx, ns, catalog.LimitsQuery{Resource: "chat"})
	add("limits on chat", onChat, len(onChat.Limits), err)
	keys, err := d.c.Keys(ctx, ns, "", "", 0)
	add("keys", keys, len(keys.Keys), err)
	own, err := d.c.Keys(ctx, ns, "alice", "", 0)
	add("alice's keys", own, len(own.Keys), err)
	overrides, err := d.c.Overrides(ctx, ns, "", "", 0)
	add("overrides", overrides, len(overrides.Overrides), err)
	hers, err := d.c.Overrides(ctx, ns, "alice", "", 0)
	add("alice's overrides", hers, len(hers.Overrides), err)
	events, err := d.c.Audit(ctx, ns, catalog.AuditQuery{})
	add("events", events, len(events.Events), err)
	about, err := d.c.Audit(ctx, ns, catalog.AuditQuery{Subject: "alice"})
	add("events about alice", about, len(about.Events), err)
	for _, q := range []catalog.UsedQuery{{Entity: "alice"}, {Resource: "chat"}, {Entity: "alice", Resource: "chat", Span: catalog.Daily}} {
		q.From, q.To = from, to
		used, err := d.c.Usage(ctx, ns, q)
		add("usage", used, len(used.Used), err)
	}
	for _, q := range []catalog.UsedQuery{{}, {Entity: "alice"}, {Resource: "chat"}} {
		q.From, q.To = from, to
		used, err := d.c.UsageSummary(ctx, ns, q)
		add("usage summary", used, len(used.Used), err)
	}
	r, err := d.c.Resolve(ctx, catalog.Subject{Namespace: ns, Entity: "alice", Resource: "chat", Tier: "pro"})
	add("resolution", r.Applied, len(r.Applied), err)
	if r.Known {
		fmt.Fprintln(&b, "alice is known")
	}
	return b.String()
}

// fill stores something of every kind.
func (d *desk) fill() (keyID string) {
	d.t.Helper()
	d.tier("pro")
	d.create(catalog.Entity{ID: "team"})
	d.create(catalog.Entity{ID: "alice", Parent: "team", Cascade: true, Tier: "pro"})
	for _, s := range []catalog.Scope{{}, {Resource: "chat"}, {Tier: "pro"}, {Tier: "pro", Resource: "chat"}, {Entity: "alice"}, {Entity: "alice", Resource: "chat"}} {
		d.set(s, "rpm", "10/minute")
	}
	_, err := d.e.SetOverride(d.ctx, catalog.Override{Entity: "alice", Limit: "rpm", Setting: limits("rpm", "1/s")["rpm"], Until: time.Now().Add(time.Hour)})
	d.no(err)
	k, _ := d.key(catalog.Key{Entity: "alice"})
	var rows []catalog.UsageRow
	for _, span := range []catalog.Span{catalog.Hourly, catalog.Daily} {
		rows = append(rows, catalog.UsageRow{Namespace: d.namespace, Entity: "alice", Resource: "chat", Limit: "rpm", Span: span, Start: midnight, Amount: 1, Count: 1})
	}
	d.no(d.store.AddUsage(d.ctx, &catalog.UsageBatch{Node: d.namespace, Seq: 1, Rows: rows}))
	return k.ID
}

func checkLeaks(t *testing.T, open Open) {
	full := newDesk(t, open)
	keyID := full.fill()
	empty := full.beside()
	if text := empty.everything(empty.ctx); text != "" {
		t.Errorf("seen from another namespace:\n%s", text)
	}
	before := full.everything(full.ctx)
	if n := strings.Count(before, "\n"); n != 23 {
		t.Errorf("the full namespace has %d things to see, want one for each method:\n%s", n, before)
	}
	for what, err := range map[string]error{
		"entity":    second(empty.c.Entity(empty.ctx, empty.namespace, "alice")),
		"limits":    second(empty.c.Limits(empty.ctx, empty.namespace, catalog.Scope{Entity: "alice"})),
		"tier":      second(empty.c.Tier(empty.ctx, empty.namespace, "pro")),
		"key":       second(empty.c.Key(empty.ctx, empty.namespace, keyID)),
		"update":    second(empty.e.UpdateEntity(empty.ctx, catalog.Entity{ID: "alice"})),
		"delete":    empty.e.DeleteEntity(empty.ctx, "alice", 0, catalog.DeleteChildren),
		"remove":    empty.e.RemoveLimits(empty.ctx, catalog.Scope{Entity: "alice"}, 0),
		"tier gone": empty.e.DeleteTier(empty.ctx, "pro", 0),
		"override":  empty.e.RemoveOverride(empty.ctx, "alice", "rpm", ""),
		"revoke":    second(empty.e.RevokeKey(empty.ctx, keyID)),
		"rotate":    third(empty.e.RotateKey(empty.ctx, keyID, 0)),
		"key gone":  empty.e.DeleteKey(empty.ctx, keyID),
		"parent":    second(empty.e.CreateEntity(empty.ctx, catalog.Entity{ID: "x", Parent: "team"})),
		"in tier":   second(empty.e.CreateEntity(empty.ctx, catalog.Entity{ID: "x", Tier: "pro"})),
	} {
		empty.is(what+" from another namespace", err, catalog.ErrNotFound)
	}
	// What removes without asking removes nothing of others.
	removed, err := empty.e.Erase(empty.ctx, "alice", catalog.DeleteChildren)
	empty.no(err)
	if removed != (catalog.Removed{}) {
		t.Errorf("erasing nothing removed %+v", removed)
	}
	var archive bytes.Buffer
	late := *empty
	late.clock = &testclock.Ahead{}
	late.clock.Set(time.Hour)
	late.start(nil)
	_, err = late.c.Archive(late.ctx, late.namespace, time.Now().Add(30*time.Minute), &archive)
	late.no(err)
	_, err = late.e.PruneAudit(late.ctx, time.Now().Add(30*time.Minute))
	late.no(err)
	plan, err := empty.c.Plan(empty.ctx, empty.namespace, catalog.Declaration{Name: "f"})
	empty.no(err)
	if !plan.Empty() {
		t.Errorf("a plan sees others' records:\n%s", plan)
	}
	_, err = empty.e.DeleteNamespace(empty.ctx)
	empty.no(err)
	if after := full.everything(full.ctx); after != before {
		t.Errorf("before:\n%s\nafter what others did:\n%s", before, after)
	}
	zip, err := gzip.NewReader(&archive)
	full.no(err)
	text, err := io.ReadAll(zip)
	full.no(err)
	if strings.Contains(string(text), full.namespace) {
		t.Errorf("another namespace's archive has:\n%s", text)
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

func checkAudit(t *testing.T, open Open) {
	d := newDesk(t, open)
	alice := d.create(catalog.Entity{ID: "alice", Name: "Alice"})
	between := time.Now()
	alice.Name = "Bob"
	_, err := d.e.UpdateEntity(d.ctx, alice)
	d.no(err)
	d.set(catalog.Scope{}, "rpm", "1/s")
	d.set(catalog.Scope{Resource: "chat"}, "rpm", "1/s")
	_, err = d.e.UpdateEntity(d.ctx, alice) // refused, so not in the log
	d.is("an old version", err, catalog.ErrConflict)
	read := func(q catalog.AuditQuery) (lines []string) {
		page, err := d.c.Audit(d.ctx, d.namespace, q)
		d.no(err)
		for _, e := range page.Events {
			lines = append(lines, e.Subject+" "+e.Action)
			if e.Actor != by.Actor || e.From != by.From || e.Reason != by.Reason || e.Namespace != d.namespace || time.Since(e.Time) > time.Minute {
				t.Errorf("event %+v", e)
			}
		}
		return lines
	}
	wantIDs(t, "all", read(catalog.AuditQuery{}), "$RESOURCE:chat limits.set", "$SYSTEM limits.set", "alice entity.update", "alice entity.create")
	wantIDs(t, "alice", read(catalog.AuditQuery{Subject: "alice", Oldest: true}), "alice entity.create", "alice entity.update")
	wantIDs(t, "system", read(catalog.AuditQuery{Subject: "$SYSTEM"}), "$SYSTEM limits.set")
	wantIDs(t, "from a time", read(catalog.AuditQuery{Subject: "alice", From: between}), "alice entity.update")
	wantIDs(t, "up to a time", read(catalog.AuditQuery{To: between}), "alice entity.create")
	page, err := d.c.Audit(d.ctx, d.namespace, catalog.AuditQuery{Subject: "alice"})
	d.no(err)
	var before, after catalog.Entity
	d.no(json.Unmarshal(page.Events[0].Before, &before))
	d.no(json.Unmarshal(page.Events[0].After, &after))
	if before.Name != "Alice" || after.Name != "Bob" || page.Events[1].Before != nil {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func checkArchive(t *testing.T, open Open) {
	d := newDesk(t, open)
	for i := range 5 {
		d.create(catalog.Entity{ID: fmt.Sprintf("e%d", i)})
	}
	_, err := d.c.Archive(d.ctx, d.namespace, time.Now(), io.Discard)
	d.wrong("up to now", err)
	before := time.Now().Add(time.Second)
	d.clock.Set(time.Hour)
	var file bytes.Buffer
	n, err := d.c.Archive(d.ctx, d.namespace, before, &file)
	d.no(err)
	zip, err := gzip.NewReader(&file)
	d.no(err)
	lines := json.NewDecoder(zip)
	for i := range n {
		var e catalog.Event
		d.no(lines.Decode(&e))
		if want := fmt.Sprintf("e%d", i); e.Subject != want || e.Action != "entity.create" || e.After == nil {
			t.Errorf("line %d: %+v", i, e)
		}
	}
	if lines.More() || n != 5 {
		t.Errorf("%d events archived, want 5", n)
	}
	pruned, err := d.e.PruneAudit(d.ctx, before)
	d.no(err)
	page, err := d.c.Audit(d.ctx, d.namespace, catalog.AuditQuery{})
	d.no(err)
	if pruned != 5 || len(page.Events) != 1 || page.Events[0].Action != "audit.prune" {
		t.Errorf("%d pruned, left %+v", pruned, page.Events)
	}
}
