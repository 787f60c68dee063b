package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
)

// away is a store that cannot be reached.
type away struct{ sluice.Store }

func (away) Take(context.Context, *sluice.Take, *sluice.Decision) error {
	return fmt.Errorf("no route: %w", sluice.ErrUnavailable)
}

func awayStore(t *testing.T) sluice.Store {
	t.Helper()
	m, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return away{m}
}

func TestDegradedAnswersSaySo(t *testing.T) {
	store, err := failover.New(awayStore(t), failover.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s := serve(t, gate(t, sample+"degraded: {}\n", func(c *httplimit.Config) { c.Limiter = sluice.New(store) }).Wrap(http.HandlerFunc(hello)))
	a := ask(t, s.URL, "GET", "/", "X-API-Key", "pro")
	if a.StatusCode != 200 || a.Header.Get("X-RateLimit-Degraded") != "true" || !strings.HasPrefix(a.Header.Get("Warning"), "199 ") || a.Header.Get("X-RateLimit-Source") != "degraded" {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
	for a.StatusCode == 200 {
		a = ask(t, s.URL, "GET", "/", "X-API-Key", "pro")
	}
	if a.StatusCode != 429 || !strings.Contains(a.problem.Message, "local quota while the store is away") || strings.Contains(a.problem.Message, "exhausted") || a.problem.Upgrade != "" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if !strings.HasSuffix(a.problem.Type, "#temporary-reduced-capacity") {
		t.Errorf("it is of the type %s", a.problem.Type)
	}
}

func TestExplanationsSayThatTheStoreIsAway(t *testing.T) {
	store, err := failover.New(awayStore(t), failover.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	for word, want := range map[string]string{
		"degrade": "answer: allowed, 200 (degraded: the store is away)",
		"deny":    "the limit a (1/hour) was not asked: denied while the store is away; retry in",
	} {
		text := "version: 1\nlimits: {a: {limit: 1/hour}}\non_unavailable: " + word + "\n"
		g := gate(t, text, func(c *httplimit.Config) { c.Limiter = sluice.New(store) })
		e := g.Explain(t.Context(), &httplimit.Request{Method: "GET", Path: "/", Remote: "192.0.2.1:1"}).String()
		if !strings.Contains(e, want) || !strings.Contains(e, "what is left is not known") {
			t.Errorf("%s: got\n%s", word, e)
		}
	}
}

func TestWithoutFailoverOnlyWhatAllowsPasses(t *testing.T) {
	for word, want := range map[string]int{"allow": 200, "deny": 503, "degrade": 503} {
		store := awayStore(t)
		text := "version: 1\nlimits: {a: {limit: 1/hour}, b: {per: ip, limit: 1/hour}}\non_unavailable: " + word + "\n"
		outcome := httplimit.Unlimited
		s := serve(t, gate(t, text, func(c *httplimit.Config) {
			c.Limiter, c.Decided = sluice.New(store), func(c *httplimit.Call) { outcome = c.Outcome }
		}).Wrap(http.HandlerFunc(hello)))
		if a := ask(t, s.URL, "GET", "/"); a.StatusCode != want || want == 503 && a.problem.Code != "ERR_LIMITER_UNAVAILABLE" {
			t.Errorf("%s: %d %s", word, a.StatusCode, a.body)
		}
		if passes := want == 200; passes != (outcome == httplimit.Allowed) || !passes && outcome != httplimit.Unavailable {
			t.Errorf("%s: %v", word, outcome)
		}
	}
}

func TestLimitsByClaim(t *testing.T) {
	secret := strings.Repeat("s", 32)
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
version: 1
tiers: {free: {}, pro: {}}
default_tier: free
limits:
  org: {per: 'claim:org', missing: skip, limit: 2/hour}
identity: {jwt: {algorithms: [HS256], secret_file: %s, tier_claim: plan}}
`, file)
	s := serve(t, gate(t, text).Wrap(http.HandlerFunc(hello)))
	token := func(claims jwt.MapClaims) string {
		claims["exp"] = time.Now().Add(time.Hour).Unix()
		signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + signed
	}
	alice := token(jwt.MapClaims{"sub": "alice", "org": "acme", "plan": "pro"})
	bob := token(jwt.MapClaims{"sub": "bob", "org": "acme"})
	carol := token(jwt.MapClaims{"sub": "carol", "org": "globex"})
	nobody := token(jwt.MapClaims{"sub": "dave"})
	for i, step := range []struct {
		who  string
		want int
	}{{alice, 200}, {bob, 200}, {alice, 429}, {bob, 429}, {carol, 200}, {nobody, 200}, {nobody, 200}, {nobody, 200}, {alice + "x", 401}} {
		a := ask(t, s.URL, "GET", "/", "Authorization", step.who)
		if a.StatusCode != step.want || a.StatusCode == 429 && step.who == alice && a.problem.Tier != "pro" {
			t.Errorf("step %d: %d %s", i, a.StatusCode, a.body)
		}
	}
}
