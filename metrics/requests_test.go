package metrics_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/metrics"
	"github.com/sluice-go/sluice/policy"
)

const requestPolicy = `version: 1
tiers: {free: {}, pro: {}}
default_tier: free
limits:
  global: {per: user, limit: 2/hour, match: "/**"}
  trial: {per: user, limit: 1/hour, shadow: true, match: /trial}
endpoints:
  search: {match: /search}
exempt: {match: /healthz}
allow: [198.51.100.0/24]
deny: [203.0.113.0/24]
abuse: {ban: {refusals: 2, within: 1m, for: 10m}}
identity:
  keys:
    - {name: one, sha256: 7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed, tier: pro}
    - {name: two, sha256: 3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3, tier: pro}
`

// TestRequestsAreCounted by outcome, tier, kind of caller and source, and
// those that do not pass by endpoint.
func TestRequestsAreCounted(t *testing.T) {
	p, err := policy.Parse("policy.yaml", []byte(requestPolicy))
	if err != nil {
		t.Fatal(err)
	}
	guard, err := abuse.New(abuse.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	requests := metrics.NewRequests()
	gate, err := httplimit.Open(t.Context(), httplimit.Config{
		Limiter: sluice.New(open(t)), Policy: p, Abuse: guard, Decided: requests.Decided, Log: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close() //nolint:errcheck // nothing is written
	ask := func(path, remote, key string) {
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		r := httplimit.Request{Method: "GET", Path: u.EscapedPath(), Header: http.Header{}, Remote: remote + ":1"}
		if key != "" {
			r.Header.Set("X-API-Key", key)
		}
		gate.Decide(t.Context(), &r, &httplimit.Call{})
	}
	for range 2 {
		ask("/trial", "192.0.2.1", "one") // the second only because the limit is a shadow
	}
	for range 4 {
		ask("/search", "192.0.2.1", "two") // 2 pass, 2 are refused
	}
	ask("/search", "192.0.2.1", "two") // banned
	ask("/healthz", "192.0.2.1", "")
	ask("/", "198.51.100.7", "")
	ask("/", "203.0.113.7", "")
	ask("/", "192.0.2.2", "three")
	if err := testutil.CollectAndCompare(requests, strings.NewReader(`
# HELP sluice_requests_total Requests decided by the policy, by outcome, tier, kind of caller (key, user, ip; none if nobody had to know) and where the decision came from (none if no limit was asked); beyond the first 500 combinations all are other.
# TYPE sluice_requests_total counter
sluice_requests_total{caller="ip",outcome="allowlisted",source="none",tier=""} 1
sluice_requests_total{caller="ip",outcome="denylisted",source="none",tier=""} 1
sluice_requests_total{caller="ip",outcome="unauthenticated",source="store",tier="free"} 1
sluice_requests_total{caller="key",outcome="allowed",source="store",tier="pro"} 3
sluice_requests_total{caller="key",outcome="banned",source="none",tier="pro"} 1
sluice_requests_total{caller="key",outcome="refused",source="store",tier="pro"} 2
sluice_requests_total{caller="key",outcome="shadowed",source="store",tier="pro"} 1
sluice_requests_total{caller="none",outcome="exempt",source="none",tier=""} 1
# HELP sluice_requests_refused_total Requests that did not pass, or would not have if a limit were not a shadow, by endpoint of the policy and outcome; beyond the first 500 combinations all are other.
# TYPE sluice_requests_refused_total counter
sluice_requests_refused_total{endpoint="",outcome="denylisted"} 1
sluice_requests_refused_total{endpoint="",outcome="shadowed"} 1
sluice_requests_refused_total{endpoint="",outcome="unauthenticated"} 1
sluice_requests_refused_total{endpoint="search",outcome="banned"} 1
sluice_requests_refused_total{endpoint="search",outcome="refused"} 2
`)); err != nil {
		t.Error(err)
	}
	c := httplimit.Call{Route: &policy.Route{}}
	for i := range 10_000 {
		c.Tier = fmt.Sprint("tier", i)
		requests.Decided(&c)
	}
	if n := testutil.CollectAndCount(requests, "sluice_requests_total"); n != 501 {
		t.Errorf("%d series, want 500 and the others", n)
	}
}

// TestShadowRefusalsAndTiersAreCounted, whichever door a take came through.
func TestShadowRefusalsAndTiersAreCounted(t *testing.T) {
	takes := metrics.NewTakes()
	l := sluice.New(open(t), sluice.WithObserver(takes))
	for range 3 {
		take := sluice.Take{Tier: "pro", Demands: []sluice.Demand{
			{Key: sluice.Key{Entity: "alice", Resource: "mail", Limit: "rpm"}, Limit: sluice.MustParse("10/hour"), Cost: sluice.Tokens(2)},
			{Key: sluice.Key{Entity: "alice", Resource: "mail", Limit: "trial"}, Limit: sluice.MustParse("2/hour"), Shadow: true},
		}}
		if err := l.Decide(t.Context(), &take, &sluice.Decision{}); err != nil {
			t.Fatal(err)
		}
	}
	families, err := gather(takes)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families["sluice_takes_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		want := map[string]float64{"allowed": 2, "shadowed": 1}[labels["outcome"]]
		if got := m.GetCounter().GetValue(); labels["tier"] == "pro" && labels["source"] == "store" && got != want {
			t.Errorf("%v: %v, want %v", labels, got, want)
		}
	}
	if err := testutil.CollectAndCompare(takes, strings.NewReader(`
# HELP sluice_shadow_refusals_total Takes that a shadow limit would have refused, by tier, resource and limit; beyond the first 500 combinations all are other.
# TYPE sluice_shadow_refusals_total counter
sluice_shadow_refusals_total{limit="trial",resource="mail",tier="pro"} 1
`), "sluice_shadow_refusals_total"); err != nil {
		t.Error(err)
	}
	for _, m := range families["sluice_take_cost_tokens"].GetMetric() {
		if h := m.GetHistogram(); m.GetLabel()[0].GetValue() == "pro" && (h.GetSampleCount() != 3 || h.GetSampleSum() != 6) {
			t.Errorf("cost: %v", h)
		}
	}
}
