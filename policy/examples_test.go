package policy_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/policy"
)

func load(t *testing.T, name string) *policy.Policy {
	t.Helper()
	p, err := policy.Load("../examples/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// resolve finds the limits of all sets of a route for callers of a tier.
func resolve(t *testing.T, p *policy.Policy, r *policy.Route, tier string) *catalog.Resolution {
	t.Helper()
	var names []string
	for i := range r.Sets {
		names = append(names, r.Sets[i].Name)
	}
	var resolver catalog.Declared
	found, err := resolver.Resolve(t.Context(), catalog.Subject{
		Namespace: p.Namespace, Entity: "user:1", Tier: tier, Resources: catalog.JoinResources(names...), File: p.Declared,
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// applied is what applies to a request, as text: set, limit and cost.
func applied(t *testing.T, p *policy.Policy, method, path, tier string) []string {
	var all []string
	route := p.Match(method, path)
	found := resolve(t, p, route, tier)
	for i := range route.Sets {
		s := &route.Sets[i]
		for _, d := range s.Append(nil, found, "user:1") {
			at := slices.IndexFunc(found.Applied, func(a catalog.Applied) bool { return a.Resource == s.Name && a.Limit == d.Key.Limit })
			text := fmt.Sprintf("%s %s per %s, cost %s", found.Applied[at].Label, d.Limit, s.Kind, d.Charge())
			if d.Critical {
				text += ", critical"
			}
			if d.Shadow {
				text += ", shadow"
			}
			all = append(all, text)
		}
	}
	return all
}

func expect(t *testing.T, p *policy.Policy, method, path, tier string, want ...string) {
	t.Helper()
	if got := applied(t, p, method, path, tier); !slices.Equal(got, want) {
		t.Errorf("%s %s, tier %s:\n got %q\nwant %q", method, path, tier, got, want)
	}
}

// The numbers of the document that the REST API's limiter began with.
func TestRESTExample(t *testing.T) {
	p := load(t, "rest-api.yaml")
	const address = "address 600/minute burst 1200 per ip, cost "
	for tier, hourly := range map[string]string{"free": "100", "pro": "1000", "enterprise": "10000", "anonymous": "100", "unheard-of": "100"} {
		for _, test := range []struct{ method, path, cost string }{
			{"GET", "/api/anything", "1"},
			{"POST", "/api/search", "3"},
			{"GET", "/api/search", "1"},
			{"POST", "/api/analyze", "5"},
			{"GET", "/api/export", "10"},
		} {
			expect(t, p, test.method, test.path, tier, "global "+hourly+"/hour per caller, cost "+test.cost, address+test.cost)
		}
	}
	const critical = " per caller, cost 1, critical"
	expect(t, p, "POST", "/api/payment/42", "free", "global 100/hour"+critical, address+"1, critical")
	expect(t, p, "POST", "/api/payment/42", "pro", "global 1000/hour"+critical, "payment 20/5m"+critical, address+"1, critical")
	expect(t, p, "POST", "/api/payment/42", "enterprise", "global 10000/hour"+critical, "payment 100/5m"+critical, address+"1, critical")
	for _, path := range []string{"/healthz", "/api/payment/42"} {
		if !p.Match("OPTIONS", path).Exempt {
			t.Errorf("OPTIONS %s is limited", path)
		}
	}
	if p.Upgrade("free") != "/api/upgrade" || p.Upgrade("pro") != "" || p.Declared.AnonymousTier != "anonymous" {
		t.Errorf("%s, %s, %s", p.Upgrade("free"), p.Upgrade("pro"), p.Declared.AnonymousTier)
	}
	if !p.Audit.Wants("pro") || !p.Audit.Wants("enterprise") || p.Audit.Wants("free") {
		t.Error("the audit log is about pro and enterprise")
	}
	wantQuotas := map[string]policy.Quota{
		"enterprise": {Limit: sluice.Per(100, time.Minute), Cost: 1},
		"pro":        {Limit: sluice.Per(50, time.Minute), Cost: 1},
		"free":       {Limit: sluice.Per(10, time.Minute), Cost: 1.5},
		"anonymous":  {Limit: sluice.Per(5, time.Minute), Cost: 2},
	}
	config := p.Degraded
	if !maps.Equal(config.Quotas, wantQuotas) || config.Failures != 3 || config.Successes != 3 || config.Backoff != 5*time.Second || config.MaxBackoff != time.Minute {
		t.Errorf("%+v", config)
	}
	if i := p.Match("POST", "/api/payment/42").Idempotency; i == nil || !i.Required || i.TTL != 24*time.Hour {
		t.Errorf("%+v", i)
	}
}

func TestLLMExample(t *testing.T) {
	p := load(t, "llm-api.yaml")
	expect(t, p, "POST", "/v1/chat/completions", "team",
		"model-rpm 500/minute burst 50 per caller, cost 1", "model-tpm 500000/minute per caller, cost 1000",
		"budget-tokens 100000000/month UTC per claim, cost 1000", "streams 50 concurrent per caller, cost 1",
		"capacity-tpm 5000000/minute per everyone, cost 1000, shadow")
	r := p.Match("POST", "/v1/chat/completions")
	if len(r.Settle) != 2 || r.Settle[0] != (policy.Settle{Limit: "tpm", Header: "X-Tokens-Used"}) {
		t.Errorf("%+v", r)
	}
	if r := p.Match("GET", "/v1/files/7"); r.Endpoint != "files" || len(applied(t, p, "GET", "/v1/files/7", "trial")) != 0 {
		t.Errorf("%+v", r)
	}
	budget := p.Match("POST", "/v1/embeddings").Sets[1]
	d := p.Declared
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	acme := d.Entities[budget.Entity("acme")]
	if acme.Tier != "team" || acme.Resources[budget.Name]["tokens"].Limit.String() != "250000000/month UTC" {
		t.Errorf("%+v", acme)
	}
	if p.Degraded.Quotas[""].Limit != sluice.Per(10, time.Minute) {
		t.Errorf("%+v", p.Degraded.Quotas)
	}
}

func TestLoginExample(t *testing.T) {
	p := load(t, "login.yaml")
	expect(t, p, "POST", "/login/", "",
		"address-burst 10/minute sliding per ip, cost 1, critical", "address-daily 200/day sliding per ip, cost 1, critical",
		"account 5/15m sliding per header, cost 1, critical")
	expect(t, p, "GET", "/login", "", "pages 120/minute per ip, cost 1")
	expect(t, p, "POST", "/password/./reset", "", "reset 3/hour sliding per ip, cost 1")
	if p.Abuse.Ban == nil || p.Abuse.Ban.Refusals != 50 || p.Headers.IETF || p.Headers.Legacy || p.Headers.XRateLimit {
		t.Errorf("%+v, %+v", p.Abuse, p.Headers)
	}
}

// What is declared to a catalog must mean the same there as in the policy.
func TestDeclaration(t *testing.T) {
	p, err := policy.Parse("policy.yaml", []byte(`
version: 1
namespace: shop
tiers:
  free: {limits: {search: 10/minute}, default: {rpm: 60/minute, tpm: 1k/minute}}
  pro: {limits: {search: unlimited}}
default_tier: free
on_unavailable: {read: allow, write: deny}
limits:
  global: {limit: 100/s}
  search: {limit: 5/s, match: /search, criticality: critical, shadow: true, on_unavailable: degrade}
system: {limit: 1000/s, on_unavailable: allow}
resources:
  gpu: {limit: 4 concurrent, on_unavailable: deny}
entities:
  team:red: {name: Red, tier: pro, metadata: {floor: "3"}, limits: {gpu: 8 concurrent}}
  user:ann: {parent: team:red, cascade: true, default: 7/s}
`))
	if err != nil {
		t.Fatal(err)
	}
	d := p.Declared
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		got  catalog.Limits
		want string
	}{
		"system":        {d.System, "requests 1000/s (on_unavailable: allow)"},
		"set":           {d.Resources["global"], "requests 100/s (on_unavailable: deny)"},
		"critical set":  {d.Resources["search"], "requests 5/s (critical, shadow)"},
		"resource":      {d.Resources["gpu"], "requests 4 concurrent (on_unavailable: deny)"},
		"tier+resource": {d.Tiers["free"].Resources["search"], "requests 10/minute (critical, shadow)"},
		"tier":          {d.Tiers["free"].Limits, "rpm 60/minute (on_unavailable: allow), tpm 1000/minute (on_unavailable: allow)"},
		"unlimited":     {d.Tiers["pro"].Resources["search"], "requests " + sluice.Unlimited.String() + " (critical, shadow)"},
		"entity+":       {d.Entities["team:red"].Resources["gpu"], "requests 8 concurrent (on_unavailable: deny)"},
		"entity":        {d.Entities["user:ann"].Limits, "requests 7/s (on_unavailable: allow)"},
	} {
		if test.got.String() != test.want {
			t.Errorf("%s: %s, want %s", name, test.got, test.want)
		}
	}
	ann, red := d.Entities["user:ann"], d.Entities["team:red"]
	if ann.Parent != "team:red" || !ann.Cascade || red.Name != "Red" || red.Tier != "pro" || red.Metadata["floor"] != "3" {
		t.Errorf("%+v", d)
	}
	if err := sluice.Unlimited.Validate(); err != nil {
		t.Error(err)
	}
	expect(t, p, "GET", "/search", "pro", "global 100/s per caller, cost 1") // search is unlimited
	if terms := d.Terms["search"]; terms != (catalog.Terms{Critical: true, Shadow: true}) || d.DefaultTier != "free" || d.AnonymousTier != "free" {
		t.Errorf("%+v", d)
	}
}
