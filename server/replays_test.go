package server_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
)

func TestReplays(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	scope := idempotency.Scope{Method: "POST", Route: "/orders", Key: "k/1 é"}
	claim := idempotency.Claim{Scope: scope, Fingerprint: idempotency.Fingerprint{1}, Life: time.Minute}

	first := must(c.ClaimReplay(ctx, claim))(t)
	if first.Verdict != idempotency.Claimed || first.Token == (idempotency.Token{}) {
		t.Fatalf("%+v", first)
	}
	if busy := must(c.ClaimReplay(ctx, claim))(t); busy.Verdict != idempotency.Busy {
		t.Errorf("%+v", busy)
	}
	again := claim
	again.Token = first.Token // the same claim, sent again
	if got := must(c.ClaimReplay(ctx, again))(t); !got.Verdict.Held() {
		t.Errorf("%+v", got)
	}
	if err := c.ExtendReplay(ctx, scope, first.Token, time.Minute); err != nil {
		t.Error(err)
	}
	if err := c.ExtendReplay(ctx, scope, idempotency.NewToken(), time.Minute); !errors.Is(err, idempotency.ErrLost) {
		t.Errorf("%v", err)
	}
	response := idempotency.Response{Status: 201, Header: http.Header{"Location": {"/orders/1"}}, Body: []byte("made\x00")}
	if err := c.CompleteReplay(ctx, scope, first.Token, response, 0); err != nil {
		t.Fatal(err)
	}
	done := must(c.ClaimReplay(ctx, claim))(t)
	if done.Verdict != idempotency.Finished || done.Response.Status != 201 || string(done.Response.Body) != "made\x00" || done.Response.Header.Get("Location") != "/orders/1" {
		t.Errorf("%+v", done)
	}
	other := claim
	other.Fingerprint = idempotency.Fingerprint{2}
	if got := must(c.ClaimReplay(ctx, other))(t); got.Verdict != idempotency.Mismatch {
		t.Errorf("%+v", got)
	}
	record, stored, err := c.LookupReplay(ctx, scope)
	if err != nil || record.State != idempotency.Done || stored.Status != 201 || record.Scope.Tenant != "default" {
		t.Errorf("%+v %+v %v", record, stored, err)
	}
	// Another namespace has keys of its own.
	must(c.PutNamespace(ctx, "other", ""))(t)
	if got := must(c.In("other").ClaimReplay(ctx, claim))(t); got.Verdict != idempotency.Claimed {
		t.Errorf("%+v", got)
	}
	if err := c.ForgetReplay(ctx, scope); err != nil {
		t.Error(err)
	}
	if _, _, err := c.LookupReplay(ctx, scope); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("%v", err)
	}
	held := must(c.ClaimReplay(ctx, claim))(t)
	if err := c.ReleaseReplay(ctx, scope, held.Token); err != nil {
		t.Error(err)
	}
	if err := c.ReleaseReplay(ctx, scope, held.Token); !errors.Is(err, idempotency.ErrLost) {
		t.Errorf("%v", err)
	}
	must(c.RecentReplays(ctx, idempotency.Query{Everyone: true, Max: 10}))(t)
	must(c.RecentReplays(ctx, idempotency.Query{Max: 0}))(t)
	must(c.ReplayStats(ctx, idempotency.Query{}))(t)
}

// A run that crashed is settled by somebody who knows what became of it.
func TestSettlingReplays(t *testing.T) {
	s := stage(t, nil)
	c := s.admin(t)
	ctx := t.Context()
	scope := idempotency.Scope{Method: "POST", Route: "/orders", Key: "crash"}
	must(c.ClaimReplay(ctx, idempotency.Claim{Scope: scope, Life: time.Minute}))(t)
	if err := c.SettleReplay(ctx, scope, nil); !errors.Is(err, idempotency.ErrNotCrashed) {
		t.Errorf("%v", err)
	}
	s.replayTime.Advance(2 * time.Minute)
	if got := must(c.ClaimReplay(ctx, idempotency.Claim{Scope: scope}))(t); got.Verdict != idempotency.Unknown {
		t.Errorf("%+v", got)
	}
	if err := c.SettleReplay(ctx, scope, &idempotency.Response{Status: 200, Body: []byte("it was done")}); err != nil {
		t.Fatal(err)
	}
	if got := must(c.ClaimReplay(ctx, idempotency.Claim{Scope: scope}))(t); got.Verdict != idempotency.Finished || string(got.Response.Body) != "it was done" {
		t.Errorf("%+v", got)
	}
}

func TestReplayProblems(t *testing.T) {
	s := stage(t, nil)
	admin := bearer(adminToken)
	const name = `"method":"POST","route":"/x","key":"k"`
	for _, c := range []struct{ path, body, field string }{
		{"claim", `{"method":"POST","route":"/x"}`, "key"},
		{"claim", `{` + name + `,"life":"1ns"}`, "life"},
		{"claim", `{` + name + `,"ttl":"9000h"}`, "ttl"},
		{"claim", `{` + name + `,"token":"xyz"}`, "token"},
		{"claim", `{` + name + `,"fingerprint":"00"}`, "fingerprint"},
		{"complete", `{` + name + `}`, "response"},
		{"complete", `{` + name + `,"response":{"status":99}}`, "response.status"},
		{"settle", `{` + name + `,"response":{"status":99}}`, "response.status"},
		{"extend", `{` + name + `,"life":"2h"}`, "life"},
	} {
		if r := s.raw(t, "POST", "/v1/replays/"+c.path, c.body, admin); r.status != 400 || r.json["field"] != c.field {
			t.Errorf("%s %s: %d %s", c.path, c.body, r.status, r.body)
		}
	}
}
