package server_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

const jwtSecret = "a secret of at least thirty-two bytes"

// TestMeIsWhoeverTheDoorsKnow: a key of the file, a token, each by the header
// that requests carry them in, and nobody else.
func TestMeIsWhoeverTheDoorsKnow(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(jwtSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	s := gated(t, strings.Replace(shop, "identity: {", "identity: {jwt: {algorithms: [HS256], secret_file: "+file+", tier_claim: plan}, ", 1))
	token := must(jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"sub": "42", "plan": "pro", "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(jwtSecret)))(t)
	for _, c := range []struct {
		header, value string
		status        int
		entity, tier  string
	}{
		{"X-Api-Key", "pro", http.StatusOK, "acme", "pro"},
		{"Authorization", "Bearer " + token, http.StatusOK, "user:42", "pro"},
		{"X-Api-Key", "wrong", http.StatusUnauthorized, "", ""},
		{"Authorization", "Bearer " + token + "x", http.StatusUnauthorized, "", ""},
		{"Accept", "*/*", http.StatusUnauthorized, "", ""},
		{"Authorization", "Bearer " + adminToken, http.StatusForbidden, "", ""},
	} {
		r := s.raw(t, "GET", "/v1/me?resource=global", "", map[string]string{c.header: c.value})
		if r.status != c.status || c.status == http.StatusOK && (r.json["entity"] != c.entity || r.json["tier"] != c.tier) {
			t.Errorf("%s %.20s: %d %s", c.header, c.value, r.status, r.body)
		}
		if r := s.raw(t, "POST", "/v1/take", `{"entity":"acme"}`, map[string]string{c.header: c.value}); r.status == http.StatusOK && c.status != http.StatusForbidden {
			t.Errorf("%s %.20s takes", c.header, c.value)
		}
	}
	for range 20 {
		s.raw(t, "GET", "/v1/me", "", map[string]string{"X-Api-Key": "wrong"})
	}
	if r := s.raw(t, "GET", "/v1/me", "", map[string]string{"X-Api-Key": "wrong"}); r.status != http.StatusTooManyRequests {
		t.Errorf("guessing goes on: %d %s", r.status, r.body)
	}
}

// TestExplainIsNoWayToGuessKeys: after some that are wrong, it does not tell
// one that is right either.
func TestExplainIsNoWayToGuessKeys(t *testing.T) {
	s := gated(t, shop)
	c, ctx := s.as(t, readToken), t.Context()
	ask := func(key string) error {
		_, err := c.ExplainRequest(ctx, client.Request{Method: "GET", Path: "/", Key: key, Address: "192.0.2.1"})
		return err
	}
	for i := range 20 {
		if err := ask("wrong"); err != nil {
			t.Fatal(i, err)
		}
	}
	for _, key := range []string{"wrong", "pro"} {
		var problem *client.Error
		if err := ask(key); !errors.As(err, &problem) || problem.Status != http.StatusTooManyRequests {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := ask(""); err != nil {
		t.Errorf("without a key: %v", err)
	}
	for _, body := range []string{`{"method":"GET","path":"/","key":"pro"}`, `{"method":"GET","path":"/","key":"wrong"}`} {
		if r := s.raw(t, "POST", "/v1/explain/request", body, nil); r.status != http.StatusUnauthorized || r.json["caller"] != nil {
			t.Errorf("without a role: %d %s", r.status, r.body)
		}
	}
}

// TestExplainShowsLists of the policy, and what has no address.
func TestExplainShowsLists(t *testing.T) {
	s := gated(t, shop+"allow: [key:p]\n")
	c, ctx := s.as(t, readToken), t.Context()
	for want, r := range map[string]client.Request{
		"allow": {Method: "GET", Path: "/", Key: "pro", Address: "192.0.2.1"},
		"deny":  {Method: "GET", Path: "/", Address: "198.51.100.7"},
		"":      {Method: "GET", Path: "/"},
	} {
		e := must(c.ExplainRequest(ctx, r))(t)
		if e.List != want || want != "" && !strings.Contains(e.Text, ", on the "+want+" list\n") || want == "" && !strings.Contains(e.Text, "has no address") {
			t.Errorf("%+v: %q\n%s", r, e.List, e.Text)
		}
	}
}

// TestBucketsShowTheRuleThatApplies, also before somebody takes by it: the
// entity's own, or that of the tier it is known to have.
func TestBucketsShowTheRuleThatApplies(t *testing.T) {
	for name, scope := range map[string]catalog.Scope{"entity": {Entity: "alice"}, "tier": {Tier: "pro"}} {
		t.Run(name, func(t *testing.T) { bucketsShowTheRule(t, scope) })
	}
}

func bucketsShowTheRule(t *testing.T, scope catalog.Scope) {
	s := stage(t, nil)
	c, ctx := s.admin(t), t.Context()
	must(c.PutTier(ctx, catalog.Tier{Name: "pro"}))(t)
	must(c.PutEntity(ctx, catalog.Entity{ID: "alice", Tier: "pro"}))(t)
	must(c.SetLimits(ctx, scope, limits("rpm", "10/hour"), 0))(t)
	must(c.Take(ctx, client.Take{Entity: "alice", Resource: "chat"}))(t)
	show := func() string { return must(c.Buckets(ctx, client.BucketQuery{}))(t).Buckets[0].RuleText() }
	if got := show(); got != "10/hour" {
		t.Error(got)
	}
	must(c.SetLimits(ctx, scope, limits("rpm", "20/hour"), 0))(t)
	if got := show(); got != "20/hour (was 10/hour)" {
		t.Error(got)
	}
	must(c.Take(ctx, client.Take{Entity: "alice", Resource: "chat"}))(t)
	if got := show(); got != "20/hour" {
		t.Error(got)
	}
}
