package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

func tokens(n int64) int64 { return n * sluice.Token }

// library is what the library itself answers to the same takes.
func library(t *testing.T, s *theater, take sluice.Take, demands []sluice.Demand) sluice.Decision {
	t.Helper()
	take.Demands = demands
	var d sluice.Decision
	if err := s.limiter.Decide(t.Context(), &take, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTakesOverTheWireAreAsInTheLibrary(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{Resource: "chat"}, limits("rpm", "3/minute", "tpm", "100/minute"), 0))(t)

	take := client.Take{Entity: "alice", Resource: "chat", Costs: map[string]sluice.Amount{"tpm": sluice.Thousandths(1500)}}
	for i := range 3 {
		d := must(c.Take(ctx, take))(t)
		if !d.Allowed || d.RetryAfter != 0 || d.Source != sluice.FromStore || len(d.Results) != 2 || d.Granted.Thousandths() != sluice.Token {
			t.Fatalf("take %d: %+v", i, d)
		}
		if r := d.Results[1]; d.Demands[1].Key.Limit != "tpm" || r.Consumed.Thousandths() != 1500 || r.Remaining.Thousandths() != tokens(100)-1500*int64(i+1) {
			t.Errorf("take %d: %+v of %+v", i, r, d.Demands[1])
		}
	}
	got := must(c.Take(ctx, take))(t)
	want := library(t, s, sluice.Take{Peek: true}, must(s.catalog.Resolve(ctx, catalog.Subject{Namespace: "default", Entity: "alice", Resource: "chat"}))(t).
		Demands(nil, "alice", sluice.LimitCost{Limit: "tpm", Cost: sluice.Thousandths(1500)}))
	if got.Allowed || got.RetryAfter != want.RetryAfter || got.Decider != want.Decider || got.Err().Error() != strings.Replace(want.Err().Error(), "default/", "", 1) {
		t.Errorf("got %v, the library says %v", got.Err(), want.Err())
	}
	for i := range want.Results {
		if got.Results[i] != want.Results[i] || got.Demands[i].Limit != want.Demands[i].Limit || got.Demands[i].Level != want.Demands[i].Level {
			t.Errorf("limit %d: got %+v of %+v, the library says %+v of %+v", i, got.Results[i], got.Demands[i], want.Results[i], want.Demands[i])
		}
	}
	if r := got.Results[1]; !r.Fits || r.Remaining.Thousandths() != tokens(100)-4500 {
		t.Errorf("a refusal by rpm consumed of tpm: %+v", r)
	}
}

func TestVerbs(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("day", "10/day"), 0))(t)
	alice := client.Take{Entity: "alice"}

	if err := c.Health(ctx); err != nil {
		t.Error(err)
	}
	if text := must(c.OpenAPI(ctx))(t); !strings.HasPrefix(string(text), "openapi: 3.1") {
		t.Errorf("%.40s", text)
	}
	peeked := must(c.Peek(ctx, client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(10))}))(t)
	if !peeked.Allowed || peeked.Results[0].Remaining.Thousandths() != tokens(10) {
		t.Errorf("peek: %+v", peeked)
	}
	never := must(c.Peek(ctx, client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(11))}))(t)
	if never.Allowed || never.RetryAfter != sluice.Never || never.Results[0].RetryAfter != sluice.Never {
		t.Errorf("above the burst: %+v", never)
	}
	must(c.Take(ctx, client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(7))}))(t)
	part := must(c.TakeUpTo(ctx, client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(5))}))(t)
	if !part.Allowed || part.Granted.Thousandths() != tokens(3) {
		t.Errorf("up to 5 of 3: %+v", part)
	}
	if d := must(c.TakeUpTo(ctx, client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(5))}))(t); d.Allowed {
		t.Errorf("up to 5 of nothing: %+v", d)
	}
	refund := must(c.Adjust(ctx, client.Take{Entity: "alice", Costs: map[string]sluice.Amount{"day": sluice.Thousandths(tokens(-4))}}))(t)
	if refund.Results[0].Remaining.Thousandths() != tokens(4) {
		t.Errorf("refund: %+v", refund)
	}
	debt := must(c.Adjust(ctx, client.Take{Entity: "alice", Costs: map[string]sluice.Amount{"day": sluice.Thousandths(tokens(6))}}))(t)
	if debt.Results[0].Remaining.Thousandths() != tokens(-2) {
		t.Errorf("debt: %+v", debt)
	}
	if err := c.Reset(ctx, client.Subject{Entity: "alice"}); err != nil {
		t.Fatal(err)
	}
	if d := must(c.Peek(ctx, alice))(t); d.Results[0].Remaining.Thousandths() != tokens(10) {
		t.Errorf("after reset: %+v", d)
	}
	own := must(c.Take(ctx, client.Take{Entity: "alice", Limits: map[string]sluice.Limit{"mine": sluice.MustParse("2/minute")}}))(t)
	if own.Demands[0].Level != sluice.LevelCall || own.Demands[0].Limit != sluice.MustParse("2/minute") || own.Results[0].Remaining.Thousandths() != tokens(1) {
		t.Errorf("with limits of its own: %+v", own)
	}
}

func TestTheClientChecksWhatItIsAsked(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	for name, try := range map[string]func() error{
		"take.costs": func() error {
			_, err := c.Take(ctx, client.Take{Entity: "a", Cost: sluice.Thousandths(1), Costs: map[string]sluice.Amount{"x": sluice.Thousandths(1)}})
			return err
		},
		"client.path": func() error { _, err := c.Entity(ctx, ""); return err },
		"scope.tier":  func() error { return c.RemoveLimits(ctx, catalog.Scope{Entity: "a", Tier: "b"}, 0) },
		"client.url": func() error {
			_, err := client.New(client.Config{URL: "ftp://elsewhere"})
			return err
		},
	} {
		var field *sluice.FieldError
		if err := try(); !errors.As(err, &field) || field.Field != name {
			t.Errorf("%s: got %v", name, err)
		}
	}
	_, err := client.New(client.Config{URL: "http://me:secret-in-url@host"})
	if err == nil || strings.Contains(err.Error(), "secret-in-url") {
		t.Errorf("got %v", err)
	}
}

func TestProblems(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "10/minute"), 0))(t)
	for _, try := range []struct {
		name   string
		do     func() error
		status int
		code   string
		field  string
		is     error
	}{
		{"no such limit", func() error {
			_, err := c.Take(ctx, client.Take{Entity: "a", Costs: map[string]sluice.Amount{"tpm": sluice.Thousandths(1000)}})
			return err
		}, 400, "invalid", "cost.tpm", nil},
		{"bad id", func() error { _, err := c.Take(ctx, client.Take{Entity: " a"}); return err }, 400, "invalid", "entity", nil},
		{"long request id", func() error {
			_, err := c.Take(ctx, client.Take{Entity: "a", ID: strings.Repeat("x", 121)})
			return err
		}, 400, "invalid", "Idempotency-Key", nil},
		{"no namespace", func() error { _, err := c.In("nowhere").Take(ctx, client.Take{Entity: "a"}); return err }, 404, "not_found", "", catalog.ErrNotFound},
		{"bad namespace", func() error { _, err := c.In("a/b").Take(ctx, client.Take{Entity: "a"}); return err }, 400, "invalid", "Sluice-Namespace", nil},
		{"concurrency without a lease", func() error {
			_, err := c.Take(ctx, client.Take{Entity: "a", Limits: map[string]sluice.Limit{"c": sluice.MustParse("1 concurrent")}})
			return err
		}, 400, "invalid", "limits.c", nil},
		{"closed lease", func() error { return c.Lease("none").Release(ctx) }, 410, "lease_closed", "", sluice.ErrLeaseClosed},
		{"bad cursor", func() error {
			_, err := c.Entities(ctx, client.EntityQuery{Page: client.Page{Cursor: "?"}})
			return err
		}, 400, "invalid", "cursor", nil},
		{"bad page", func() error { _, err := c.Tiers(ctx, client.Page{Max: 1001}); return err }, 400, "invalid", "max", nil},
		{"bad level", func() error { _, err := c.ListLimits(ctx, client.LimitsQuery{Level: "call"}); return err }, 400, "invalid", "level", nil},
		{"empty settlement", func() error { _, err := c.Lease("x").Adjust(ctx); return err }, 400, "invalid", "costs", nil},
		{"no entity", func() error { _, err := c.Entity(ctx, "nobody"); return err }, 404, "not_found", "", catalog.ErrNotFound},
	} {
		err := try.do()
		var e *client.Error
		if !errors.As(err, &e) || e.Status != try.status || e.Code != try.code || e.Field != try.field || e.Detail == "" {
			t.Errorf("%s: got %#v", try.name, err)
			continue
		}
		if try.is != nil && !errors.Is(err, try.is) {
			t.Errorf("%s: %v is not %v", try.name, err, try.is)
		}
	}
}

func TestWithoutLimitsATakeIsAProblem(t *testing.T) {
	s := stage(t, nil)
	_, err := s.admin(t).Take(t.Context(), client.Take{Entity: "alice"})
	var e *client.Error
	if !errors.As(err, &e) || e.Status != 422 || e.Code != "no_limit" {
		t.Errorf("got %v", err)
	}
}

func TestIdempotencyKeysMakeTakesRepeatable(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "10/hour"), 0))(t)
	take := client.Take{Entity: "alice", Cost: sluice.Thousandths(tokens(3)), ID: `order/17 "a"`}
	first := must(c.Take(ctx, take))(t)
	again := must(c.Take(ctx, take))(t)
	if first.Repeated || !again.Repeated || again.Results[0].Remaining != first.Results[0].Remaining || first.ID != take.ID {
		t.Errorf("%+v, then %+v", first, again)
	}
	header := bearer(adminToken)
	header["Idempotency-Key"] = `"order/17 \"a\""`
	if r := s.raw(t, "POST", "/v1/take", `{"entity":"alice","cost":3}`, header); r.json["repeated"] != true {
		t.Errorf("%s", r.body)
	}
	if d := must(c.Peek(ctx, client.Take{Entity: "alice"}))(t); d.Results[0].Remaining.Thousandths() != tokens(7) {
		t.Errorf("the repetition consumed: %+v", d)
	}
	take.Cost = sluice.Thousandths(tokens(4))
	if _, err := c.Take(ctx, take); !errors.Is(err, sluice.ErrRequestMismatch) {
		t.Errorf("another take with the same id: %v", err)
	}
	r := s.raw(t, "POST", "/v1/take", `{"entity":"alice"}`, header)
	if r.status != 422 || r.json["code"] != "key_reused" {
		t.Errorf("%d %s", r.status, r.body)
	}
	for key, body := range map[string]string{
		`a, b`: `{"entity":"alice"}`, `"`: `{"entity":"alice"}`, "": `{"entity":"alice"}`, strings.Repeat("x", 300): `{"entity":"alice"}`,
	} {
		header["Idempotency-Key"] = key
		if r := s.raw(t, "POST", "/v1/take", body, header); r.status != 400 || r.json["field"] != "Idempotency-Key" {
			t.Errorf("%q: %d %s", key, r.status, r.body)
		}
	}
	// What cannot be repeated says so, and what was the body's id, too.
	header["Idempotency-Key"] = "x"
	if r := s.raw(t, "POST", "/v1/adjust", `{"entity":"alice","cost":{"rpm":1}}`, header); r.status != 400 || r.json["field"] != "Idempotency-Key" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := s.raw(t, "POST", "/v1/take", `{"entity":"alice","id":"x"}`, header); r.status != 400 || !strings.Contains(r.body, "the header Idempotency-Key") {
		t.Errorf("%d %s", r.status, r.body)
	}
	// Another namespace has keys of its own.
	must(c.PutNamespace(ctx, "other", ""))(t)
	other := c.In("other")
	must(other.SetLimits(ctx, catalog.Scope{}, limits("rpm", "10/hour"), 0))(t)
	if d := must(other.Take(ctx, take))(t); d.Repeated || d.Results[0].Remaining.Thousandths() != tokens(6) {
		t.Errorf("%+v", d)
	}
}

func TestBatch(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "2/hour"), 0))(t)
	places := map[string]sluice.Limit{"c": sluice.MustParse("1 concurrent")}
	all := must(c.Takes(ctx, client.Take{Entity: "a"}, client.Take{Entity: "b", Cost: sluice.Thousandths(tokens(2))}, client.Take{Entity: "b"},
		client.Take{Entity: "a"}, client.Take{Entity: "a"}, client.Take{Entity: "c", Limits: places}))(t)
	for i, want := range []bool{true, true, false, true, false, false} {
		if all[i].Decision.Allowed != want || (all[i].Err != nil) != (i == 5) {
			t.Errorf("%d: %+v", i, all[i])
		}
	}
	// With a key, the whole batch is safe to repeat.
	keyed := []client.Take{{Entity: "k", ID: "batch"}, {Entity: "k", ID: "batch"}, {Entity: "k", ID: "batch"}}
	first := must(c.Takes(ctx, keyed...))(t)
	for i, o := range must(c.Takes(ctx, keyed...))(t) {
		if o.Decision.Allowed != (i < 2) || o.Decision.Repeated != (i < 2) || o.Decision.Allowed != first[i].Decision.Allowed || first[i].Decision.Repeated {
			t.Errorf("%d: %+v, then %+v", i, first[i], o)
		}
	}
	if _, err := c.Takes(ctx, client.Take{Entity: "k", ID: "one"}, client.Take{Entity: "k"}); err == nil {
		t.Error("two keys in one request")
	}
	var e *client.Error
	if !errors.As(all[5].Err, &e) || e.Status != 400 || e.Code != "invalid" {
		t.Errorf("%v", all[5].Err)
	}
	// A mistake in one is found before any is decided.
	_, err := c.Takes(ctx, client.Take{Entity: "d"}, client.Take{Entity: ""})
	if !errors.As(err, &e) || e.Field != "takes[1].entity" {
		t.Errorf("%#v", err)
	}
	if d := must(c.Peek(ctx, client.Take{Entity: "d"}))(t); d.Results[0].Remaining.Thousandths() != tokens(2) {
		t.Errorf("%+v", d)
	}
	if _, err := c.Takes(ctx, make([]client.Take, 101)...); !errors.As(err, &e) || e.Field != "takes" {
		t.Errorf("%#v", err)
	}
}

func TestWaiting(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("rps", "1/hour"), 0))(t)
	must(c.SetLimits(ctx, catalog.Scope{Resource: "soon"}, limits("rps", "1/50ms"), 0))(t)

	// What comes in time is waited for.
	soon := client.Take{Entity: "alice", Resource: "soon"}
	must(c.Take(ctx, soon))(t)
	patient, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	go func() { // the store's clock runs
		for patient.Err() == nil {
			time.Sleep(5 * time.Millisecond)
			s.now.Advance(5 * time.Millisecond)
		}
	}()
	if d, err := c.Wait(patient, soon); err != nil || !d.Allowed {
		t.Errorf("%+v %v", d, err)
	}
	if lease, d, err := c.WaitAcquire(patient, soon); err != nil || lease == nil || !d.Allowed {
		t.Errorf("%+v %v", d, err)
	}

	// What does not is refused, with when it will.
	late := client.Take{Entity: "alice", Wait: 2 * time.Second}
	must(c.Take(ctx, late))(t)
	d, err := c.Wait(patient, late)
	var refused *sluice.RefusedError
	if !errors.As(err, &refused) || refused.RetryAfter < 50*time.Minute || d.Allowed {
		t.Errorf("%+v %v", d, err)
	}
	header := bearer(adminToken)
	r := s.raw(t, "POST", "/v1/take", `{"entity":"alice","wait":"2s"}`, header)
	if r.status != 429 || r.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", r.status, r.body)
	}
	for body, field := range map[string]string{
		`{"entity":"alice","wait":"61s"}`:            "wait",
		`{"entity":"alice","wait":"-1s"}`:            "wait",
		`{"entity":"alice","wait":"soon"}`:           "wait",
		`{"entity":"alice","wait":"1s","peek":true}`: "peek",
		`{"entity":"alice","priority":"high"}`:       "priority",
	} {
		if r := s.raw(t, "POST", "/v1/take", body, header); r.status != 400 || r.json["field"] != field {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
}
