package server_test

import (
	"strings"
	"testing"
)

// A take is answered with the headers of the middleware: the window of a token
// bucket is the time in which it fills.
func TestTakesSendTheHeadersOfTheMiddleware(t *testing.T) {
	s := stage(t, nil)
	for _, path := range []string{"/v1/take", "/v1/leases"} {
		r := s.raw(t, "POST", path, `{"entity":"`+path+`","limits":{"burst":"100/minute burst 20","daily":"50/day UTC"}}`, bearer(serviceToken))
		if got := r.header.Get("RateLimit-Policy"); got != `"burst";q=20;w=12, "daily";q=50;w=86400` {
			t.Errorf("%s: RateLimit-Policy: %s", path, got)
		}
		if got := r.header.Get("RateLimit"); !strings.HasPrefix(got, `"burst";r=19;t=1, "daily";r=49;t=`) {
			t.Errorf("%s: RateLimit: %s", path, got)
		}
	}
}

// A limit has the same name in the headers of the middleware and of a take.
func TestHeadersNameLimitsAsThePolicyDoes(t *testing.T) {
	s := gated(t, `
version: 1
limits:
  api: {limit: 100/minute burst 20}
  search: {limit: {rpm: 10/minute, rpd: 100/day UTC}}
`)
	for resource, want := range map[string]string{"api": `"api";q=20;w=12`, "search": `"search-rpd";q=100;w=86400, "search-rpm";q=10;w=60`} {
		r := s.raw(t, "POST", "/v1/take", `{"entity":"acme","resource":"`+resource+`"}`, bearer(serviceToken))
		if got := r.header.Get("RateLimit-Policy"); got != want {
			t.Errorf("%s: %s, want %s", resource, got, want)
		}
	}
}

// The policy chooses them, and what it does not announce is in none.
func TestThePolicyChoosesTheHeadersOfTakes(t *testing.T) {
	s := gated(t, `
version: 1
limits:
  api: {limit: 100/minute burst 20}
  guard: {limit: 1/hour, announce: false}
headers: {send: [x-ratelimit], reset_after: true, cost: true, source: true}
identity: {keys: [{name: k, sha256: 2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b, entity: acme}]}
`)
	header := bearer(serviceToken)
	r := s.raw(t, "POST", "/v1/take", `{"entity":"acme","resource":"api","cost":3}`, header)
	for name, want := range map[string]string{
		"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "17", "X-RateLimit-Reset-After": "1.8", "X-RateLimit-Cost": "3", "X-RateLimit-Source": "store",
		"RateLimit": "", "RateLimit-Policy": "",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	s.raw(t, "POST", "/v1/take", `{"entity":"acme","resource":"guard"}`, header)
	r = s.raw(t, "POST", "/v1/take", `{"entity":"acme","resource":"guard"}`, header)
	if r.status != 429 || r.header.Get("Retry-After") != "3600" || r.header.Get("X-RateLimit-Limit") != "" || r.json["limit"] == nil {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	me := s.raw(t, "GET", "/v1/me", "", map[string]string{"X-Api-Key": "secret"})
	if me.status != 200 || strings.Contains(me.body, "guard") || !strings.Contains(me.body, `"resource":"api"`) {
		t.Errorf("%d %s", me.status, me.body)
	}
	if status := s.raw(t, "GET", "/v1/status/acme", "", bearer(readToken)); !strings.Contains(status.body, "guard") {
		t.Errorf("an operator does not see it: %s", status.body)
	}
}

// A limit that is not announced, by the policy or as it is stored, is not in what
// a key is told that acts for its own entity; a back-end sees it, and that it is
// not to be passed on.
func TestUnannouncedLimitsAreInNoBody(t *testing.T) {
	s := gated(t, `
version: 1
limits:
  api: {limit: 100/minute burst 20}
  guard: {limit: 1/hour, announce: false}
`)
	admin := bearer(adminToken)
	s.raw(t, "PUT", "/v1/limits/entities/eve/stored", `{"limits":{"seen":{"rule":"9/hour"},"guarded":{"rule":"2/hour","announce":false}}}`, admin)
	s.raw(t, "PUT", "/v1/overrides/eve/rpm", `{"rule":"7/hour","announce":false,"for":"1h","reason":"test","resource":"bent"}`, admin)
	made := s.raw(t, "POST", "/v1/keys", `{"entity":"eve","scopes":["sluice:take"],"create":true}`, admin)
	eve, service := bearer(made.json["secret"].(string)), bearer(serviceToken)
	for _, resource := range []string{"guard", "stored", "bent"} {
		body := `{"entity":"eve","resource":"` + resource + `"}`
		lease := s.raw(t, "POST", "/v1/leases", `{"entity":"eve","resource":"`+resource+`"}`, eve)
		id, _ := lease.json["lease"].(string)
		answers := map[string]reply{
			"a lease": lease, "a commit": s.raw(t, "POST", "/v1/leases/"+id+"/commit", "{}", eve),
			"a take": s.raw(t, "POST", "/v1/take", body, eve), "a refusal": s.raw(t, "POST", "/v1/take", `{"entity":"eve","resource":"`+resource+`","cost":8}`, eve),
			"several": s.raw(t, "POST", "/v1/takes", `{"takes":[`+body+`]}`, eve), "explain": s.raw(t, "POST", "/v1/explain", body, eve),
			"status": s.raw(t, "GET", "/v1/status/eve/"+resource, "", eve), "me": s.raw(t, "GET", "/v1/me?resource="+resource, "", eve),
		}
		for what, r := range answers {
			for _, told := range []string{"/hour", "guarded", "announce", `"rpm"`} {
				if strings.Contains(strings.ReplaceAll(r.body, "9/hour", ""), told) {
					t.Errorf("%s of %s tells %q: %d %s", what, resource, told, r.status, r.body)
				}
			}
			if shows := strings.Contains(r.body, "9/hour"); r.status >= 500 || r.status == 403 || shows != (resource == "stored") {
				t.Errorf("%s of %s: %d %s", what, resource, r.status, r.body)
			}
		}
		if text := answers["explain"].json["text"].(string); strings.Contains(text, "no limit applies") {
			t.Errorf("explain of %s: %s", resource, text)
		}
		if r := answers["a refusal"]; r.status != 429 || r.json["never"] != true {
			t.Errorf("a refusal by %s does not say when to come back: %d %s", resource, r.status, r.body)
		}
		if r := answers["a take"]; resource == "guard" && (r.status != 429 || r.json["retryAfter"] != 3600.0) {
			t.Errorf("who is refused is not told when to come back: %d %s", r.status, r.body)
		}
		if r := s.raw(t, "POST", "/v1/take", body, service); !strings.Contains(r.body, `"announce":false`) {
			t.Errorf("a back-end is not told of %s: %d %s", resource, r.status, r.body)
		}
	}
}
