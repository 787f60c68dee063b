package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/schedule"
	"github.com/sluice-go/sluice/server"
)

// respond stores a response for a key of an entity, as the gateway does.
func (h *house) respond(t *testing.T, namespace, entity, key string) idempotency.Scope {
	t.Helper()
	scope := idempotency.Scope{Tenant: idempotency.Tenant(namespace, entity), Method: "POST", Route: "/orders", Key: key}
	claim := idempotency.Claim{Scope: scope, Token: idempotency.NewToken(), Life: time.Minute, TTL: time.Hour}
	must(h.keeper.Claim(t.Context(), claim))(t)
	response := idempotency.Response{Status: 201, Body: []byte("for " + entity)}
	if err := h.keeper.Complete(t.Context(), scope, claim.Token, response, time.Hour); err != nil {
		t.Fatal(err)
	}
	return scope
}

// inhabit leaves something of every kind in a namespace.
func (h *house) inhabit(t *testing.T, name string, resources int) {
	t.Helper()
	ctx := t.Context()
	admin := h.admin(t)
	must(admin.PutNamespace(ctx, name, "the tenant "+name))(t)
	c := admin.In(name)
	must(c.PutTier(ctx, catalog.Tier{Name: "pro"}))(t)
	must(c.PutEntity(ctx, catalog.Entity{ID: "team"}))(t)
	must(c.PutEntity(ctx, catalog.Entity{ID: "alice", Parent: "team", Cascade: true, Tier: "pro"}))(t)
	// A token comes back in an hour or more, so that no bucket is full again, and gone, before it is counted.
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "20/day"), 0))(t)
	must(c.SetLimits(ctx, catalog.Scope{Entity: "alice"}, limits("rpm", "10/day", "daily", "24/day"), 0))(t)
	must(c.Because("a test").SetOverride(ctx, catalog.Override{Entity: "alice", Limit: "rpm", Setting: limits("rpm", "12/day")["rpm"], Until: time.Now().Add(time.Hour)}))(t)
	must(c.CreateKey(ctx, catalog.Key{Entity: "alice"}, true))(t)
	for i := range resources {
		must(c.Take(ctx, client.Take{Entity: "alice", Resource: fmt.Sprint("r", i)}))(t)
	}
	if err := h.recorder.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		h.respond(t, name, "alice", fmt.Sprint("k", i))
	}
	own := idempotency.Claim{Scope: idempotency.Scope{Method: "POST", Route: "/pay", Key: "k"}, Life: time.Minute}
	if got := must(c.ClaimReplay(ctx, own))(t); got.Verdict != idempotency.Claimed {
		t.Fatalf("%+v", got)
	}
	slots := must(schedule.New(schedule.Config{Store: h.slots, Namespace: name}))(t)
	must(slots.SetPlan(ctx, schedule.Plan{Name: "mail", MaxPerWindow: 2}))(t)
	for i := range 5 {
		must(slots.Assign(ctx, schedule.Request{Event: fmt.Sprint("e", i), Plan: "mail"}))(t)
	}
}

func TestADeletedNamespaceLeavesNothing(t *testing.T) {
	onEveryHouse(t, func(t *testing.T, h *house) {
		const resources = 70 // three buckets each: more than one reset takes
		h.inhabit(t, "acme", resources)
		h.inhabit(t, "bolt", 3)
		c := h.admin(t)
		ctx := t.Context()
		if before := len(h.find(t, "acme")); before < 20 {
			t.Fatalf("the search finds %d things", before)
		}
		bolt := h.everything(t, "bolt")

		erased := must(c.DeleteNamespace(ctx, "acme"))(t)
		if erased.Buckets != 3*resources || erased.Replays != 4 || erased.Slots != 5 ||
			erased.Usage != 3*3*resources || erased.Records < 6 || erased.Events < 6 {
			t.Errorf("%+v", erased)
		}
		for _, line := range h.left(t, "acme") {
			t.Errorf("left: %s", line)
		}
		if _, err := c.Namespace(ctx, "acme"); !errors.Is(err, catalog.ErrNotFound) {
			t.Errorf("%v", err)
		}
		if _, err := c.In("acme").Take(ctx, client.Take{Entity: "alice"}); err == nil {
			t.Error("a namespace that is gone can be used")
		}
		if _, err := c.DeleteNamespace(ctx, "acme"); !errors.Is(err, catalog.ErrNotFound) {
			t.Errorf("deleting it again: %v", err)
		}
		if after := h.everything(t, "bolt"); after != bolt {
			t.Errorf("before:\n%s\nafter another was deleted:\n%s", bolt, after)
		}

		// Made anew, it is empty.
		must(c.PutNamespace(ctx, "acme", ""))(t)
		if text := h.everything(t, "acme"); text != nothing {
			t.Errorf("a namespace made anew has:\n%s", text)
		}
	})
}

const nothing = "0 entities 0 limits 0 keys 0 overrides 0 events 0 used 0 buckets {0 0 0 0 0 0 0 0 0 0 0 0 0 0} 0 replays, 0 plans"

// everything is what the API tells of a namespace, and the scheduler.
func (h *house) everything(t *testing.T, name string) string {
	t.Helper()
	ctx := t.Context()
	c := h.admin(t).In(name)
	replays := 0
	for _, scope := range []idempotency.Scope{
		{Tenant: name, Method: "POST", Route: "/pay", Key: "k"},
		{Tenant: name + "/alice", Method: "POST", Route: "/orders", Key: "k1"},
	} {
		if _, _, err := h.keeper.Lookup(ctx, scope); err == nil {
			replays++
		}
	}
	slots := must(schedule.New(schedule.Config{Store: h.slots, Namespace: name}))(t)
	stats := must(c.ReplayStats(ctx, idempotency.Query{}))(t)
	if name == "bolt" {
		stats = idempotency.Stats{} // which are told a little later
	}
	return fmt.Sprintf("%d entities %d limits %d keys %d overrides %d events %d used %d buckets %v %d replays, %d plans",
		len(must(c.Entities(ctx, client.EntityQuery{}))(t).Entities), len(must(c.ListLimits(ctx, client.LimitsQuery{}))(t).Limits),
		len(must(c.Keys(ctx, "", client.Page{}))(t).Keys), len(must(c.Overrides(ctx, "", client.Page{}))(t).Overrides),
		len(must(c.Audit(ctx, catalog.AuditQuery{}))(t).Events), len(must(c.UsageSummary(ctx, catalog.UsedQuery{}))(t).Used),
		len(must(c.Buckets(ctx, client.BucketQuery{}))(t).Buckets), stats, replays, len(must(slots.Plans(ctx, "", 10))(t)))
}

// tiredStore purges three times, and then takes longer than anybody waits: it
// ends the request's time.
type tiredStore struct {
	catalog.Store
	purges atomic.Int64
}

func tired(s catalog.Store) catalog.Store { return &tiredStore{Store: s} }

type timeIsUp struct{}

func (s *tiredStore) Purge(ctx context.Context, p catalog.Purge) (int, error) {
	end, ok := ctx.Value(timeIsUp{}).(context.CancelFunc)
	if ok && s.purges.Add(1)%4 == 0 {
		end()
		return 0, ctx.Err()
	}
	return s.Store.Purge(ctx, p)
}

// What is much is removed by several requests, and shows until it is gone.
func TestDeletingInSteps(t *testing.T) {
	h := embeddedHouse(t, tired)
	h.inhabit(t, "acme", 1)
	rows := make([]catalog.UsageRow, 1500)
	for i := range rows {
		rows[i] = catalog.UsageRow{
			Namespace: "acme", Entity: fmt.Sprint("e", i), Resource: "chat", Limit: "rpm",
			Span: catalog.Hourly, Start: time.Now().Truncate(time.Hour), Amount: 1, Count: 1,
		}
	}
	if err := h.records.AddUsage(t.Context(), &catalog.UsageBatch{Node: "a node", Seq: 1, Rows: rows}); err != nil {
		t.Fatal(err)
	}
	// Another node has begun, and was interrupted.
	must(h.catalog.Edit("acme", catalog.By{Actor: "another"}).CloseNamespace(t.Context()))(t)
	defer server.EraseFor(func(ctx context.Context) (context.Context, context.CancelFunc) {
		limited, cancel := context.WithCancel(ctx)
		return context.WithValue(limited, timeIsUp{}, cancel), cancel
	})()
	accepted, usage, cursor := 0, 0.0, ""
	for {
		r := h.raw(t, "DELETE", "/v1/namespaces/acme?cursor="+strings.ReplaceAll(cursor, " ", "+"), "", bearer(adminToken))
		if r.status != http.StatusOK && r.status != http.StatusAccepted || r.json["done"] != (r.status == http.StatusOK) {
			t.Fatalf("%d %s after %d that were accepted, %v rows: %s", r.status, r.body, accepted, usage, h.log)
		}
		usage += r.json["usage"].(float64)
		if r.status == http.StatusOK {
			break
		}
		accepted++
		cursor, _ = r.json["next"].(string)
		if n := must(h.admin(t).Namespace(t.Context(), "acme"))(t); !n.Deleting || n.Closed.IsZero() {
			t.Fatalf("%+v", n)
		}
	}
	if accepted == 0 || usage != 1509 {
		t.Errorf("%d requests did not suffice, %v rows were removed", accepted, usage)
	}
	for _, line := range h.left(t, "acme") {
		t.Errorf("left: %s", line)
	}
	if r := h.raw(t, "DELETE", "/v1/namespaces/default?cursor=x", "", bearer(adminToken)); r.status != http.StatusBadRequest {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestEraseLeavesNothing(t *testing.T) {
	onEveryHouse(t, func(t *testing.T, h *house) {
		c := h.admin(t).Because("asked to")
		ctx := t.Context()
		must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "5/hour"), 0))(t)
		must(c.PutEntity(ctx, catalog.Entity{ID: "team"}))(t)
		must(c.PutEntity(ctx, catalog.Entity{ID: "alice", Parent: "team", Name: "Alice A."}))(t)
		must(c.PutEntity(ctx, catalog.Entity{ID: "alice2"}))(t)
		must(c.SetLimits(ctx, catalog.Scope{Entity: "alice", Resource: "chat"}, limits("rpm", "3/hour"), 0))(t)
		key := must(c.CreateKey(ctx, catalog.Key{Entity: "alice", Scopes: []string{"sluice:take"}}, true))(t)
		for _, resource := range []string{"", "chat", "mail"} {
			must(c.Take(ctx, client.Take{Entity: "alice", Resource: resource}))(t)
		}
		must(c.Take(ctx, client.Take{Entity: "alice2"}))(t)
		if err := h.recorder.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		var gone []idempotency.Scope
		for i := range 3 {
			gone = append(gone, h.respond(t, "default", "alice", fmt.Sprint("k", i)))
		}
		gone = append(gone, h.respond(t, "default", "team", "k"))
		kept := []idempotency.Scope{h.respond(t, "default", "alice2", "k"), h.respond(t, "other", "alice", "k")}
		running := idempotency.Claim{
			Scope: idempotency.Scope{Tenant: "default/alice", Method: "POST", Route: "/orders", Key: "running"},
			Token: idempotency.NewToken(), Life: time.Minute, TTL: time.Hour,
		}
		must(h.keeper.Claim(ctx, running))(t)

		if _, err := c.EraseEntity(ctx, "team", catalog.RefuseChildren); !errors.Is(err, catalog.ErrHasChildren) {
			t.Errorf("%v", err)
		}
		erased := must(c.EraseEntity(ctx, "team", catalog.DeleteChildren))(t)
		want := client.Erased{Removed: catalog.Removed{Records: 4, Usage: 9, Events: 5}, Buckets: 3, Replays: 5}
		if erased != want {
			t.Errorf("%+v, want %+v", erased, want)
		}
		if again := must(c.EraseEntity(ctx, "alice", catalog.RefuseChildren))(t); again != (client.Erased{}) {
			t.Errorf("erasing it again removed %+v", again)
		}
		if never := must(c.EraseEntity(ctx, "never-there", catalog.RefuseChildren))(t); never != (client.Erased{}) {
			t.Errorf("erasing who was never there removed %+v", never)
		}
		if _, err := c.Entity(ctx, "alice"); !errors.Is(err, catalog.ErrNotFound) {
			t.Errorf("%v", err)
		}
		if _, err := h.as(t, key.Secret).Me(ctx, ""); !errors.Is(err, catalog.ErrKey) {
			t.Errorf("%v", err)
		}
		if page := must(c.Buckets(ctx, client.BucketQuery{Entity: "alice"}))(t); len(page.Buckets) != 0 {
			t.Errorf("%+v", page)
		}
		if page := must(c.UsageSummary(ctx, catalog.UsedQuery{Entity: "alice"}))(t); len(page.Used) != 0 {
			t.Errorf("%+v", page)
		}
		events := must(c.Audit(ctx, catalog.AuditQuery{Subject: "alice"}))(t).Events
		if len(events) != 1 || events[0].Action != "entity.erase" || events[0].Reason != "asked to" {
			t.Errorf("%+v", events)
		}
		for _, scope := range gone {
			if record, _, err := h.keeper.Lookup(ctx, scope); !errors.Is(err, idempotency.ErrNotFound) {
				t.Errorf("%v: %+v", err, record)
			}
		}
		// A run that was going on has nothing to end.
		err := h.keeper.Complete(ctx, running.Scope, running.Token, idempotency.Response{Status: 201, Body: []byte("for alice")}, time.Hour)
		if !errors.Is(err, idempotency.ErrLost) {
			t.Errorf("%v", err)
		}
		for _, line := range h.find(t, "for alice") {
			if !strings.Contains(line, "alice2") && !strings.Contains(line, "other") && !strings.HasPrefix(line, "redis: ") {
				t.Errorf("left: %s", line)
			}
		}
		for _, scope := range kept {
			must(pair(h.keeper.Lookup(ctx, scope)))(t)
		}
		if page := must(c.Buckets(ctx, client.BucketQuery{Entity: "alice2"}))(t); len(page.Buckets) != 1 {
			t.Errorf("%+v", page)
		}
	})
}

func pair(r idempotency.Record, _ *idempotency.Response, err error) (idempotency.Record, error) {
	return r, err
}

// What the gateway stores for a caller goes with the entity that it knows the
// caller as.
func TestEraseFindsWhatTheGatewayStored(t *testing.T) {
	h := embeddedHouse(t, nil)
	p := must(policy.Parse("test.yaml", []byte(`
version: 1
limits: {all: {per: ip, limit: 100/minute}}
idempotency: {orders: {match: POST /orders, required: true}}
`)))(t)
	gate := must(httplimit.Open(t.Context(), httplimit.Config{
		Limiter: h.limiter, Policy: p, Log: slog.New(slog.DiscardHandler),
	}))(t)
	closes(t, gate)
	runs := 0
	handler := gate.Wrap(httplimit.Idempotent(h.keeper)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		runs++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "order %d", runs)
	})))
	order := func() string {
		r := httptest.NewRequest("POST", "/orders", strings.NewReader("a book"))
		r.RemoteAddr = "192.0.2.7:1234"
		r.Header.Set("Idempotency-Key", `"k"`)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Body.String()
	}
	if first, again := order(), order(); first != "order 1" || again != "order 1" {
		t.Fatalf("%s, and again %s", first, again)
	}
	buckets := must(h.admin(t).Buckets(t.Context(), client.BucketQuery{}))(t).Buckets
	if len(buckets) != 1 {
		t.Fatalf("%+v", buckets)
	}
	erased := must(h.admin(t).EraseEntity(t.Context(), buckets[0].Entity, catalog.RefuseChildren))(t)
	if erased.Replays != 1 || erased.Buckets != 1 {
		t.Errorf("%+v of %s", erased, buckets[0].Entity)
	}
	if got := order(); got != "order 2" {
		t.Errorf("after it: %s", got)
	}
}
