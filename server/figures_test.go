package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/server"
)

// beside is another node on the same buckets and the same catalog, or the same
// one after a restart.
func (s *theater) beside(t *testing.T, limiter *sluice.Limiter) *theater {
	return stage(t, func(c *server.Config) {
		c.Catalog, c.Limiter = s.catalog, limiter
	})
}

// TestTotalsAreTheSameOnEveryNode, also on one that has just started: they come
// from what is stored. What a node has seen lately says so.
func TestTotalsAreTheSameOnEveryNode(t *testing.T) {
	s := stage(t, nil)
	other := s.beside(t, s.limiter)
	ctx := t.Context()
	must(s.admin(t).SetLimits(ctx, catalog.Scope{}, limits("rpm", "100/hour"), 0))(t)
	for range 7 {
		must(s.admin(t).Take(ctx, client.Take{Entity: "alice", Resource: "chat", Cost: sluice.Thousandths(tokens(3))}))(t)
	}
	last := s.now.Now()
	s.now.Advance(2 * time.Hour) // the bucket is full again, and forgotten
	if err := s.recorder.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*client.Client{"one": s.admin(t), "other": other.admin(t)} {
		st := must(c.Status(ctx, client.Subject{Entity: "alice", Resource: "chat"}))(t)
		rpm := st.Limits[0]
		if rpm.Total == nil || rpm.Total.Consumed.Thousandths() != tokens(21) || rpm.Total.Takes != 7 || !rpm.Total.LastTaken.Equal(last) || rpm.Remaining.Thousandths() != tokens(100) {
			t.Errorf("%s: %+v, total %+v", name, rpm, rpm.Total)
		}
		if want := map[string]int64{"one": 7, "other": 0}[name]; rpm.Node.Allowed != want {
			t.Errorf("%s allowed %d in the last minute, want %d", name, rpm.Node.Allowed, want)
		}
	}
	must(s.admin(t).Take(ctx, client.Take{Entity: "alice", Resource: "chat"}))(t)
	if b := must(other.admin(t).Buckets(ctx, client.BucketQuery{Entity: "alice"}))(t).Buckets[0]; b.Total == nil || b.Total.Takes < 7 {
		t.Errorf("%+v, total %+v", b, b.Total)
	}
	if err := s.recorder.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	used := must(other.admin(t).Usage(ctx, catalog.UsedQuery{Entity: "alice", Span: catalog.Total}))(t).Used
	if len(used) != 1 || used[0].Amount.Thousandths() != tokens(22) || used[0].Count != 8 || !used[0].Start.IsZero() || !used[0].Last.Equal(s.now.Now()) {
		t.Errorf("%+v", used)
	}
	must(s.admin(t).EraseEntity(ctx, "alice", catalog.RefuseChildren))(t)
	if st := must(other.admin(t).Status(ctx, client.Subject{Entity: "alice", Resource: "chat"}))(t); st.Limits[0].Total != nil {
		t.Errorf("after it was erased, its total is %+v", st.Limits[0].Total)
	}
}

// TestWaitingShows in the status of every node, and who waits on which.
func TestWaitingShows(t *testing.T) {
	s := stage(t, nil)
	other := s.beside(t, sluice.New(s.buckets))
	ctx := t.Context()
	c := s.admin(t)
	must(c.SetLimits(ctx, catalog.Scope{}, limits("one", "1/hour"), 0))(t)
	take := client.Take{Entity: "alice", Resource: "chat"}
	must(c.Take(ctx, take))(t)
	waiting, giveUp := context.WithCancel(ctx)
	ended := make(chan error, 3)
	for range cap(ended) {
		go func() {
			_, err := s.limiter.Wait(waiting, sluice.Take{Demands: []sluice.Demand{{
				Key: sluice.Key{Namespace: "default", Entity: "alice", Resource: "chat", Limit: "one"}, Limit: sluice.MustParse("1/hour"),
			}}})
			ended <- err
		}()
	}
	for s.limiter.WaitingAll().Length < cap(ended) {
		time.Sleep(time.Millisecond)
	}
	for {
		if b := must(c.Buckets(ctx, client.BucketQuery{Entity: "alice"}))(t).Buckets; *b[0].WaitingNodes > 0 {
			break // the first in line has its ticket
		}
	}
	for name, c := range map[string]*client.Client{"one": c, "other": other.admin(t)} {
		l := must(c.Status(ctx, client.Subject{Entity: "alice", Resource: "chat"}))(t).Limits[0]
		want := map[string]int{"one": cap(ended), "other": 0}[name]
		if l.Node.Waiting != want || l.Remaining.Thousandths() != 0 || l.Utilization != 100 {
			t.Errorf("%s: %+v, here %+v", name, l, l.Node)
		}
		// Of the entity as a whole, too.
		for _, st := range []client.Status{must(c.Status(ctx, client.Subject{Entity: "alice", Resource: "chat"}))(t), must(c.Status(ctx, client.Subject{Entity: "alice"}))(t)} {
			if l := st.Limits[0]; l.WaitingNodes == nil || *l.WaitingNodes != 1 {
				t.Errorf("%s, of %q: waiting nodes %v, want 1", name, st.Resource, l.WaitingNodes)
			}
		}
	}
	if l := must(c.Status(ctx, client.Subject{Entity: "bob", Resource: "chat"}))(t).Limits[0]; l.WaitingNodes == nil || *l.WaitingNodes != 0 {
		t.Errorf("nobody waits for what is not used: %v", l.WaitingNodes)
	}
	giveUp()
	for range cap(ended) {
		<-ended
	}
	if l := must(c.Status(ctx, client.Subject{Entity: "alice", Resource: "chat"}))(t).Limits[0]; l.Node.Waiting != 0 || *l.WaitingNodes != 0 {
		t.Errorf("after all have given up: %+v, on %d nodes", l.Node, *l.WaitingNodes)
	}
}

// TestHeldIsNotUsed: seven nodes hold tokens of a bucket ahead of need, and have
// spent one each.
func TestHeldIsNotUsed(t *testing.T) {
	s := stage(t, nil)
	ctx := t.Context()
	c := s.admin(t)
	must(c.SetLimits(ctx, catalog.Scope{}, limits("daily", "100000/day"), 0))(t)
	demand := sluice.Demand{
		Key: sluice.Key{Namespace: "default", Entity: "alice", Resource: "chat", Limit: "daily"}, Limit: sluice.MustParse("100000/day"),
	}
	for range 7 {
		ahead := must(advance.New(unclosed{s.buckets}, advance.Config{Log: slog.New(slog.DiscardHandler)}))(t)
		closes(t, ahead)
		node := sluice.New(ahead)
		for range 3 { // a bucket that is asked for more than once is held
			must(node.Take(ctx, demand))(t)
		}
	}
	l := must(c.Status(ctx, client.Subject{Entity: "alice", Resource: "chat"}))(t).Limits[0]
	b := must(c.Buckets(ctx, client.BucketQuery{Entity: "alice"}))(t).Buckets[0]
	if b.Held.Thousandths() == 0 {
		t.Fatalf("nothing is held: %+v", b)
	}
	if l.Utilization > 1 || l.Alarm != catalog.AlarmNone || l.Upgrade || b.Utilization > 1 || b.Alarm != catalog.AlarmNone {
		t.Errorf("with %s held: %+v and %+v", b.Held, l, b)
	}
	r := s.raw(t, "POST", "/v1/take", `{"entity":"alice","resource":"chat"}`, bearer(adminToken))
	if left, ok := r.json["remaining"].(float64); !ok || left < 99_000 || left > 100_000 {
		t.Errorf("%s", r.body)
	}
	if h := r.header.Get("RateLimit"); !strings.HasPrefix(h, `"chat-daily";r=99`) {
		t.Errorf("RateLimit: %s", h)
	}
}

// unclosed is a store that somebody else closes.
type unclosed struct{ sluice.Store }

func (unclosed) Close() error { return nil }

// lost is a store that nobody reaches.
type lost struct{ *memory.Store }

func (lost) Take(context.Context, *sluice.Take, *sluice.Decision) error { return sluice.ErrUnavailable }

func (lost) List(context.Context, sluice.Query) (sluice.Page, error) {
	return sluice.Page{}, sluice.ErrUnavailable
}

// TestFiguresWithoutTheStoreAreAbsent, which is not the same as 0.
func TestFiguresWithoutTheStoreAreAbsent(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	store := must(memory.Open(memory.Config{Log: quiet}))(t)
	guarded := must(failover.New(lost{store}, failover.Config{Log: quiet}))(t)
	closes(t, guarded)
	s := stage(t, func(c *server.Config) {
		c.Limiter = sluice.New(guarded, sluice.WithObserver(c.Activity))
		c.StoreState = func() string { return guarded.State().String() }
	})
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "100/hour"), 0))(t)
	var d sluice.Decision
	for d.Allowed = true; d.Allowed; {
		var err error
		var refused *sluice.RefusedError
		if d, err = c.Take(ctx, client.Take{Entity: "alice", Resource: "chat"}); err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
	}
	if d.Reason() != "local quota while the store is away" {
		t.Errorf("a take is refused because %q", d.Reason())
	}
	if err := guarded.Configure(failover.Config{Log: quiet, Quotas: map[string]failover.Quota{"": {Limit: sluice.Per(1000, time.Minute)}}}); err != nil {
		t.Fatal(err)
	}
	refusal := s.raw(t, "POST", "/v1/take", `{"entity":"bob","resource":"chat","limits":{"rpm":"5/s"},"cost":2000}`, bearer(adminToken))
	if refusal.json["never"] != true || refusal.json["reason"] != nil {
		t.Errorf("a cost above the limit: %s", refusal.body)
	}
	r := s.raw(t, "GET", "/v1/status/alice/chat", "", bearer(adminToken))
	var answer struct {
		Alarm  *string
		Limits []map[string]any
	}
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || len(answer.Limits) != 1 {
		t.Fatalf("%v: %s", err, r.body)
	}
	for _, name := range []string{"remaining", "utilization", "resetAfter", "alarm", "waitingNodes", "total"} {
		if v, ok := answer.Limits[0][name]; ok {
			t.Errorf("%s is %v, which nobody knows", name, v)
		}
	}
	if answer.Alarm != nil {
		t.Errorf("the alarm is %q, which nobody knows", *answer.Alarm)
	}
	if source := answer.Limits[0]["source"]; source != "degraded" {
		t.Errorf("the source is %v", source)
	}
	for _, resource := range []string{"chat", ""} {
		status := must(c.Status(ctx, client.Subject{Entity: "alice", Resource: resource}))(t)
		if l := status.Limits[0]; len(status.Limits) != 1 || l.Resource != "chat" || !l.Unknown || l.Upgrade || l.Alarm != "" || l.Source != "degraded" || l.Node.Refused != 1 {
			t.Errorf("%q: %+v", resource, status.Limits)
		}
		if status.Store != "open" {
			t.Errorf("%q: the store is %s", resource, status.Store)
		}
	}
}

// TestADecisionTellsTheLatest and what came back, and nothing of what is not
// known.
func TestADecisionTellsTheLatest(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("running", "1 concurrent"), 0))(t)
	lease, _, err := c.Acquire(ctx, client.Take{Entity: "alice", Keep: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r := s.raw(t, "POST", "/v1/leases", `{"entity":"alice","keep":"1m"}`, bearer(adminToken))
	if r.status != 429 || r.json["retryAfter"] != 1.0 || r.json["latestAfter"] != 600.0 || r.header.Get("Retry-After") != "1" {
		t.Errorf("%d %s, Retry-After %s", r.status, r.body, r.header.Get("Retry-After"))
	}
	_, d, err := c.Acquire(ctx, client.Take{Entity: "alice"})
	if err != nil || d.RetryAfter != time.Second || d.Results[0].LatestAfter != 10*time.Minute {
		t.Errorf("%+v, %v", d, err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Fatal(err)
	}

	must(c.SetLimits(ctx, catalog.Scope{}, limits("rps", "100/s"), 0))(t)
	must(c.Take(ctx, client.Take{Entity: "bob", Cost: sluice.Thousandths(tokens(80))}))(t)
	s.now.Advance(700 * time.Millisecond)
	d = must(c.Adjust(ctx, client.Take{Entity: "bob", Costs: map[string]sluice.Amount{"rps": sluice.Thousandths(-tokens(80))}}))(t)
	if r := d.Results[0]; r.Consumed.Thousandths() != -tokens(80) || r.Returned.Thousandths() != tokens(10) || r.Remaining.Thousandths() != tokens(100) || r.Free != r.Remaining || r.Unknown {
		t.Errorf("a refund that refill was faster than: %+v", r)
	}
}
