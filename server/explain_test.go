package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/server"
)

func hexSum(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

var shop = `
version: 1
tiers: {free: {limits: {global: 5/hour}}, pro: {limits: {global: 100/hour}}, internal: {default: unlimited}}
default_tier: free
limits:
  global: {per: caller}
  search: {per: caller, match: POST /api/search, limit: {rpm: 10/minute}}
  address: {per: ip, limit: 50/minute}
endpoints: {search: {match: POST /api/search, cost: 3}}
exempt: {match: GET /healthz}
deny: [198.51.100.0/24]
identity: {keys: [{name: p, sha256: ` + hexSum("pro") + `, entity: acme, tier: pro}]}
`

// gated is a stage with a gate by a policy, which is declared in the catalog.
func gated(t *testing.T, text string) *theater {
	t.Helper()
	p := must(policy.Parse("policy.yaml", []byte(text)))(t)
	return stage(t, func(c *server.Config) {
		if err := c.Catalog.Declare(p.Namespace, p.Declared); err != nil {
			t.Fatal(err)
		}
		c.Gate = must(httplimit.Open(t.Context(), httplimit.Config{
			Limiter: c.Limiter, Policy: p, Resolver: c.Catalog, Verify: httplimit.Keys(c.Catalog), Log: slog.New(slog.DiscardHandler),
		}))(t)
		closes(t, c.Gate)
	})
}

func TestARequestIsExplained(t *testing.T) {
	s := gated(t, shop)
	c := s.as(t, readToken)
	ctx := t.Context()
	if _, err := s.admin(t).SetLimits(ctx, catalog.Scope{Entity: "acme", Resource: "search"}, limits("rpm", "2/minute"), 0); err != nil {
		t.Fatal(err)
	}
	e := must(c.ExplainRequest(ctx, client.Request{Method: "POST", Path: "/api/search", Key: "pro", Address: "192.0.2.1"}))(t)
	if e.Endpoint != "search" || e.Pattern != "POST /api/search" || e.Cost.Thousandths() != 3*sluice.Token || e.Caller != "acme" || e.KnownBy != "key" || e.Tier != "pro" {
		t.Errorf("%+v", e)
	}
	if e.Outcome != "refused" || e.Status != 429 || e.Decision == nil || e.Decision.Allowed || !strings.Contains(e.Message, "never") {
		t.Errorf("a cost of 3 on 2/minute: %+v", e)
	}
	var got []string
	for _, a := range e.Applied {
		got = append(got, a.Entity+" "+a.Resource+"/"+a.Limit+" "+a.Rule.String()+" "+a.Level+" "+string(a.Kept))
	}
	want := []string{"acme global/requests 100/hour tier+resource file", "acme search/rpm 2/minute entity+resource stored", "ip:192.0.2.1 address/requests 50/minute resource file"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, line := range []string{
		"POST /api/search: endpoint search (POST /api/search), cost 3", "caller acme, known by key, tier pro",
		"search-rpm 2/minute: level entity+resource, stored; bucket search/rpm of acme, 2 of 2 left, cost 3, does not fit", "answer: refused, 429: ",
	} {
		if !strings.Contains(e.Text, line) {
			t.Errorf("%q is missing in\n%s", line, e.Text)
		}
	}
	for _, test := range []struct {
		request client.Request
		outcome string
		status  int
		tier    string
	}{
		{client.Request{Method: "GET", Path: "/a", Address: "192.0.2.2"}, "allowed", 200, "free"},
		{client.Request{Method: "GET", Path: "/a", Key: "wrong", Address: "192.0.2.2"}, "unauthenticated", 401, "free"},
		{client.Request{Method: "GET", Path: "/a", Address: "198.51.100.7"}, "denylisted", 403, ""},
		{client.Request{Method: "GET", Path: "/healthz"}, "exempt", 200, ""},
	} {
		for range 9 { // it consumes nothing
			e = must(c.ExplainRequest(ctx, test.request))(t)
		}
		if e.Outcome != test.outcome || e.Status != test.status || e.Tier != test.tier {
			t.Errorf("%+v: %s, %d, tier %q\n%s", test.request, e.Outcome, e.Status, e.Tier, e.Text)
		}
	}
	for field, wrong := range map[string]client.Request{"path": {Method: "GET", Path: "a"}, "address": {Method: "GET", Path: "/", Address: "here"}} {
		var problem *client.Error
		if _, err := c.ExplainRequest(ctx, wrong); !errors.As(err, &problem) || problem.Field != field {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if _, err := stage(t, nil).as(t, readToken).ExplainRequest(ctx, client.Request{Method: "GET", Path: "/"}); err == nil {
		t.Error("a server without a policy explains")
	}
}

// TestTheDescriptionHasTheOutcomes that explain and the metrics use.
func TestTheDescriptionHasTheOutcomes(t *testing.T) {
	want := []any{}
	for o := httplimit.Unlimited; o <= httplimit.Unavailable; o++ {
		want = append(want, o.String())
	}
	got := dig(map[string]any(openSpec(t)), "components", "schemas", "RequestExplanation", "properties", "outcome", "enum")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestWhatIsUnlimitedIsAllowed at the doors of the API, too.
func TestWhatIsUnlimitedIsAllowed(t *testing.T) {
	s := gated(t, strings.Replace(shop, "default_tier: free", "default_tier: internal", 1))
	c, ctx := s.as(t, serviceToken), t.Context()
	take := client.Take{Entity: "alice", Resource: "global", Cost: sluice.Tokens(3)}
	if d := must(c.Take(ctx, take))(t); !d.Allowed || len(d.Results) != 0 {
		t.Errorf("%+v", d)
	}
	err := c.Do(ctx, take, func(context.Context, *client.Lease) error { return nil })
	if err != nil {
		t.Error(err)
	}
	e := must(c.Explain(ctx, take))(t)
	if e.Tier != "internal" || len(e.Applied) != 1 || e.Applied[0].Level != "tier" || !strings.Contains(e.Text, "requests unlimited: level tier, file") {
		t.Errorf("%+v", e)
	}
}
