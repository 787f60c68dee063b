package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/memory"
)

func TestFiguresRecentReplaysAndKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		k := memoryKeeper(t)
		var o orders
		h := k.Handler(always(prepared(t, nil)), &o)
		as := func(tenant string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set("Tenant", tenant) }
		}
		do(h, post("a", "x", as("acme")))
		do(h, post("a", "x", as("acme")))
		time.Sleep(time.Second)
		do(h, post("a", "x", as("acme")))
		do(h, post("a", "y", as("acme")))
		time.Sleep(time.Second)
		do(h, post("b", "x", as("bond")))
		do(h, post("b", "x", as("bond")))
		time.Sleep(6 * time.Second) // until it is noted

		acme, err := k.Stats(ctx, idempotency.Query{Tenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		if acme.FirstRuns != 1 || acme.Replays != 2 || acme.Mismatches != 1 || acme.BytesReplayed != 6 || acme.BytesStored == 0 {
			t.Errorf("acme: %+v", acme)
		}
		all, err := k.Stats(ctx, idempotency.Query{Everyone: true})
		if err != nil || all.FirstRuns != 2 || all.Replays != 3 || all != k.Local() {
			t.Errorf("all: %+v, %v", all, err)
		}
		recent, err := k.Recent(ctx, idempotency.Query{Everyone: true})
		if err != nil || len(recent) != 2 || recent[0].Scope.Key != "b" || recent[1].Scope.Key != "a" || recent[1].Replays != 2 {
			t.Errorf("recent: %+v, %v", recent, err)
		}
		if recent, err := k.Recent(ctx, idempotency.Query{Tenant: "bond"}); err != nil || len(recent) != 1 {
			t.Errorf("recent of bond: %+v, %v", recent, err)
		}
		if _, err := k.Recent(ctx, idempotency.Query{Max: 1001}); err == nil {
			t.Error("1001 are too many")
		}

		key := scope("a")
		key.Tenant = "acme"
		record, response, err := k.Lookup(ctx, key)
		if err != nil || record.Replays != 2 || response.Status != 201 || string(response.Body) != "# x" {
			t.Errorf("lookup: %+v, %+v, %v", record, response, err)
		}
		if err := k.Forget(ctx, key); err != nil {
			t.Fatal(err)
		}
		if err := k.Forget(ctx, key); !errors.Is(err, idempotency.ErrNotFound) {
			t.Errorf("forget: %v", err)
		}
		wantAnswer(t, do(h, post("a", "y", as("acme"))), 201, "### y", false)
	})
}

// The steps for those who run the work elsewhere.
func TestStepByStep(t *testing.T) {
	ctx := t.Context()
	k := memoryKeeper(t)
	claim := idempotency.Claim{Scope: scope("k"), Token: idempotency.NewToken(), Life: time.Second, TTL: time.Hour}
	a, err := k.Claim(ctx, claim)
	if err != nil || a.Verdict != idempotency.Claimed {
		t.Fatal(a.Verdict, err)
	}
	if err := k.Extend(ctx, claim.Scope, claim.Token, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := k.Complete(ctx, claim.Scope, claim.Token, idempotency.Response{Status: 200, Body: []byte("x")}, time.Hour); err != nil {
		t.Fatal(err)
	}
	claim.Token = idempotency.NewToken()
	a, err = k.Claim(ctx, claim)
	if err != nil || a.Verdict != idempotency.Finished {
		t.Fatal(a.Verdict, err)
	}
	if r, err := k.Replay(&a); err != nil || string(r.Body) != "x" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := k.Release(ctx, claim.Scope, claim.Token); !errors.Is(err, idempotency.ErrLost) {
		t.Errorf("release: %v", err)
	}
	for name, change := range map[string]func(*idempotency.Claim){
		"token":  func(c *idempotency.Claim) { c.Token = idempotency.Token{} },
		"life":   func(c *idempotency.Claim) { c.Life = 2 * time.Hour },
		"ttl":    func(c *idempotency.Claim) { c.TTL = 0 },
		"key":    func(c *idempotency.Claim) { c.Scope.Key = "" },
		"tenant": func(c *idempotency.Claim) { c.Scope.Tenant = strings.Repeat("x", 256) },
	} {
		bad := claim
		change(&bad)
		if _, err := k.Claim(ctx, bad); err == nil || !strings.Contains(err.Error(), "idempotency."+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A limiter in front refuses before anything is claimed, and a replay costs
// nothing, because the route gives back what was taken for it.
func TestLimitsComeBefore(t *testing.T) {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	limiter := sluice.New(store)
	demand := sluice.Demand{
		Key: sluice.Key{Entity: "acme", Limit: "orders"}, Limit: sluice.MustParse("2/hour"), Cost: sluice.Tokens(1),
	}
	k := memoryKeeper(t)
	var o orders
	route := prepared(t, func(r *idempotency.Route) {
		r.OnReplay = func(r *http.Request) {
			refund := demand
			refund.Cost = sluice.Thousandths(-refund.Cost.Thousandths())
			if _, err := limiter.Adjust(r.Context(), refund); err != nil {
				t.Error(err)
			}
		}
	})
	inner := k.Handler(always(route), &o)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := limiter.Take(r.Context(), demand)
		if err != nil || !d.Allowed {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		inner.ServeHTTP(w, r)
	})
	wantAnswer(t, do(h, post("a", "x")), 201, "# x", false)
	for range 10 {
		wantAnswer(t, do(h, post("a", "x")), 201, "# x", true)
	}
	wantAnswer(t, do(h, post("b", "x")), 201, "## x", false)
	if w := do(h, post("c", "x")); w.Code != 429 {
		t.Errorf("status %d, want 429", w.Code)
	}
	if _, _, err := k.Lookup(t.Context(), scope("c")); !errors.Is(err, idempotency.ErrNotFound) {
		t.Errorf("a refused request left a record: %v", err)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := idempotency.NewMemory(idempotency.MemoryConfig{MaxRecords: 100, MaxBytes: 200 << 10})
		if err != nil {
			t.Fatal(err)
		}
		k := keeperOn(t, s)
		runs := 0
		h := k.Handler(always(prepared(t, func(r *idempotency.Route) { r.OnUnavailable = idempotency.Refuse })),
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				runs++
				w.Write(make([]byte, 10<<10))
			}))
		refused := 0
		for i := range 1000 {
			if w := do(h, post(fmt.Sprint(i), "x")); w.Code == 503 {
				refused++
			}
			if n, bytes := s.Size(); n > 100 || bytes > 200<<10 {
				t.Fatalf("%d records with %d bytes", n, bytes)
			}
		}
		if runs+refused != 1000 || refused == 0 || runs < 20 {
			t.Errorf("%d runs, %d refused", runs, refused)
		}
		// What there is is never thrown away: the first ones are replayed, the
		// later ones at least known.
		if w := do(h, post("0", "x")); w.Code != 200 || w.Header().Get("Idempotent-Replay") != "true" {
			t.Errorf("status %d", w.Code)
		}
		wantCode(t, do(h, post(fmt.Sprint(runs-1), "x")), 409, idempotency.CodeNotKept)
		time.Sleep(25 * time.Hour)
		if n, bytes := s.Size(); n != 0 || bytes != 0 {
			t.Errorf("%d records with %d bytes are left", n, bytes)
		}
	})
}
