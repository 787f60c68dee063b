package server_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/policy"
	"github.com/sluice-go/sluice/server"
)

// TestExplainSaysWhatATakeDoes, also where that is an error, and so does a peek.
func TestExplainSaysWhatATakeDoes(t *testing.T) {
	s := stage(t, nil)
	c, ctx := s.admin(t), t.Context()
	must(c.SetLimits(ctx, catalog.Scope{Entity: "alice", Resource: "chat"}, limits("rpm", "2/hour"), 0))(t)
	must(c.SetLimits(ctx, catalog.Scope{Entity: "alice", Resource: "jobs"}, limits("running", "2 concurrent"), 0))(t)
	must(c.SetLimits(ctx, catalog.Scope{Entity: "alice", Resource: "free"}, limits("rpm", "unlimited"), 0))(t)
	for _, test := range []struct {
		body    string
		problem string // its code
		applied string
	}{
		{`{"entity":"alice","resource":"chat"}`, "", "rpm 2/hour entity+resource stored"},
		{`{"entity":"alice","resource":"free"}`, "", "rpm unlimited entity+resource stored"},
		{`{"entity":"alice","resource":"jobs"}`, "invalid", "running 2 concurrent entity+resource stored"},
		{`{"entity":"alice","resource":"nothing"}`, "no_limit", ""},
		{`{"entity":"alice","resource":"chat","limits":{"tpm":"9/hour"}}`, "", "tpm 9/hour call call"},
		{`{"entity":"alice","resource":"chat","limits":{"rpm":"unlimited"}}`, "", "rpm unlimited call call"},
	} {
		explained := s.raw(t, "POST", "/v1/explain", test.body, bearer(adminToken))
		if explained.status != http.StatusOK {
			t.Fatalf("%s: %d %s", test.body, explained.status, explained.body)
		}
		peek := s.raw(t, "POST", "/v1/take", strings.Replace(test.body, "{", `{"peek":true,`, 1), bearer(adminToken))
		take := s.raw(t, "POST", "/v1/take", test.body, bearer(adminToken))
		if peek.status != take.status || peek.json["code"] != take.json["code"] {
			t.Errorf("%s: a peek is answered\n%s\nand a take\n%s", test.body, peek.body, take.body)
		}
		code := ""
		if p := object(explained.json["problem"]); p != nil {
			code, _ = p["code"].(string)
			if p["detail"] != take.json["detail"] {
				t.Errorf("%s: explained as %v, answered %v", test.body, p["detail"], take.json["detail"])
			}
		} else if object(explained.json["decision"])["allowed"] != take.json["allowed"] {
			t.Errorf("%s: explained as\n%s\na take is answered\n%s", test.body, explained.body, take.body)
		}
		if code != test.problem {
			t.Errorf("%s: %q, want %q: %s", test.body, code, test.problem, explained.body)
		}
		applied := ""
		for _, a := range explained.json["applied"].([]any) {
			a := object(a)
			applied += fmt.Sprint(a["limit"], " ", a["rule"], " ", a["level"], " ", a["kept"])
		}
		if applied != test.applied {
			t.Errorf("%s: applied %q, want %q", test.body, applied, test.applied)
		}
	}
	if all := must(c.Buckets(ctx, client.BucketQuery{Entity: "alice"}))(t).Buckets; len(all) != 2 {
		t.Errorf("what is unlimited has a bucket: %+v", all)
	}
}

// TestAdjustGoesByTheRuleOfTheBucket where the tier is known to the caller's key
// alone: an operator's refund does not squeeze a bucket of 1000 into 100.
func TestAdjustGoesByTheRuleOfTheBucket(t *testing.T) {
	s := gated(t, shop)
	c, ctx := s.admin(t), t.Context()
	who := client.Take{Entity: "acme", Resource: "global", Tier: "pro", Cost: sluice.Tokens(40)}
	must(c.Take(ctx, who))(t)
	d := must(c.Adjust(ctx, client.Take{Entity: "acme", Resource: "global", Costs: map[string]sluice.Amount{"requests": sluice.Tokens(10)}}))(t)
	if d.Demands[0].Limit.String() != "100/hour" || d.Results[0].Remaining != sluice.Tokens(50) {
		t.Errorf("%v: %v left", d.Demands[0].Limit, d.Results[0].Remaining)
	}
	if st := must(c.Status(ctx, client.Subject{Entity: "acme", Resource: "global", Tier: "pro"}))(t).Limits[0]; st.Remaining != sluice.Tokens(50) || st.Alarm != catalog.AlarmNone || st.LastRule != nil {
		t.Errorf("%+v", st)
	}
	// Nobody knows the tier: half of 100 may be used, or ten times 5.
	st := must(c.Status(ctx, client.Subject{Entity: "acme", Resource: "global"}))(t)
	if l := st.Limits[0]; l.RuleText() != "5/hour (last 100/hour)" || l.Alarm != catalog.AlarmNone || l.Upgrade || st.Alarm != catalog.AlarmNone {
		t.Errorf("%s: %+v", l.RuleText(), st)
	}
	must(c.SetLimits(ctx, catalog.Scope{Entity: "acme"}, limits("requests", "5/hour"), 0))(t)
	if st := must(c.Status(ctx, client.Subject{Entity: "acme", Resource: "global"}))(t); st.Alarm != catalog.AlarmCritical {
		t.Errorf("limited to 5: %+v", st)
	}
}

var counting = `
version: 1
namespace: shop
limits:
  callers: {per: caller, limit: 10/hour}
  people: {per: user, limit: 10/hour}
  machines: {per: key, limit: 10/hour}
  addresses: {per: ip, limit: 10/hour}
  tenants: {per: 'header:X-Tenant', limit: 10/hour}
  total: {per: everyone, limit: 10/hour}
identity: {keys: [{name: itself, sha256: ` + hexSum("itself") + `}, {name: ours, sha256: ` + hexSum("ours") + `, entity: acme}]}
`

// TestStatusListsWhatCountsAnEntity, and what its calls brought; the namespace
// is the policy's at every door.
func TestStatusListsWhatCountsAnEntity(t *testing.T) {
	s := gated(t, counting)
	c, ctx := s.admin(t), t.Context()
	must(c.Take(ctx, client.Take{Entity: "acme", Resource: "jobs", Limits: map[string]sluice.Limit{"runs": sluice.MustParse("4/hour")}}))(t)
	for entity, want := range map[string]string{
		"acme":                  "callers jobs people",
		"ip:192.0.2.1":          "addresses callers",
		"key:itself":            "callers machines people",
		"key:ours":              "machines",
		"header:X-Tenant:blue":  "tenants",
		"ip:2001:db8:1:2::1":    "addresses callers",
		"ip:2001:db8:1:2::/64":  "addresses callers",
		"header:X-Other:orange": "",
	} {
		st := must(c.Status(ctx, client.Subject{Entity: entity}))(t)
		var got []string
		for _, l := range st.Limits {
			got = append(got, l.Resource)
			if strings.HasPrefix(entity, "ip:2001") && l.Entity != "ip:2001:db8:1:2::/64" {
				t.Errorf("%s is %s", entity, l.Entity)
			}
			if l.Resource == "jobs" && (l.Level != "none" || l.Rule.String() != "4/hour" || l.Remaining != sluice.Tokens(3)) {
				t.Errorf("%+v", l)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", entity, got, want)
		}
	}
	request := must(c.ExplainRequest(ctx, client.Request{Method: "GET", Path: "/", Address: "2001:db8:1:2::1"}))(t)
	must(c.Take(ctx, client.Take{Entity: "ip:2001:db8:1:2::2", Resource: "addresses", Cost: sluice.Tokens(10)}))(t)
	refused := must(c.ExplainRequest(ctx, client.Request{Method: "GET", Path: "/", Address: "2001:db8:1:2::1"}))(t)
	if request.Status != 200 || refused.Status != 429 {
		t.Errorf("a take elsewhere: %d, then %d", request.Status, refused.Status)
	}
	if all := must(c.In("shop").Buckets(ctx, client.BucketQuery{Entity: "ip:2001:db8:1:2::3"}))(t).Buckets; len(all) != 1 {
		t.Errorf("%+v", all)
	}
}

// TestMeIsTheSameByAnyHeader, for a key of another namespace, too.
func TestMeIsTheSameByAnyHeader(t *testing.T) {
	s := gated(t, counting)
	ctx := t.Context()
	must(s.admin(t).PutNamespace(ctx, "other", ""))(t)
	key := must(s.admin(t).In("other").CreateKey(ctx, catalog.Key{Entity: "bob"}, true))(t)
	for range 25 { // and it is no guess
		for name, value := range map[string]string{"Authorization": "Bearer " + key.Secret, "X-Api-Key": key.Secret} {
			if r := s.raw(t, "GET", "/v1/me", "", map[string]string{name: value}); r.status != http.StatusOK || r.json["entity"] != "bob" {
				t.Fatalf("%s: %d %s", name, r.status, r.body)
			}
		}
	}
}

// TestAnswersAreOfOnePolicy while policies come and go.
func TestAnswersAreOfOnePolicy(t *testing.T) {
	both := func(rule string) *policy.Policy {
		return must(policy.Parse("p.yaml", []byte("version: 1\nlimits: {a: {per: caller, limit: "+rule+"}, b: {per: caller, limit: "+rule+"}}\n")))(t)
	}
	policies := []*policy.Policy{both("10/hour"), both("20/hour")}
	var gate *httplimit.Gate
	s := stage(t, func(c *server.Config) {
		gate = must(httplimit.Open(t.Context(), httplimit.Config{Limiter: c.Limiter, Policy: policies[0], Resolver: c.Catalog, Log: slog.New(slog.DiscardHandler)}))(t)
		closes(t, gate)
		c.Gate = gate
	})
	if err := s.catalog.Declare(policies[0].Namespace, policies[0].Declared); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var reloads sync.WaitGroup
	reloads.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			p := policies[i%2]
			if err := s.catalog.Declare(p.Namespace, p.Declared); err != nil {
				t.Error(err)
			}
			if err := gate.Use(p); err != nil {
				t.Error(err)
			}
		}
	})
	for range 500 {
		st := must(s.admin(t).Status(t.Context(), client.Subject{Entity: "alice"}))(t)
		if len(st.Limits) != 2 || st.Limits[0].Rule != st.Limits[1].Rule {
			t.Errorf("half of each: %+v", st.Limits)
			break
		}
	}
	close(done)
	reloads.Wait()
}

// TestExplainingWrongKeysIsNobodysUse, and does not lock an administrator out.
func TestExplainingWrongKeysIsNobodysUse(t *testing.T) {
	s := gated(t, shop)
	ctx := t.Context()
	for range 25 {
		must(s.admin(t).ExplainRequest(ctx, client.Request{Method: "GET", Path: "/", Key: "wrong", Address: "192.0.2.1"}))(t)
	}
	must(s.as(t, readToken).ExplainRequest(ctx, client.Request{Method: "GET", Path: "/", Key: "wrong", Address: "192.0.2.1"}))(t)
	if err := s.recorder.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	usage := must(s.catalog.UsageSummary(ctx, "default", catalog.UsedQuery{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}))(t)
	if text := fmt.Sprintf("%+v", usage); strings.Contains(text, "explain") {
		t.Error(text)
	}
}

// TestRequestsAreExplainedAsTheGatewayAnswers: a # in the path, a key that is
// demanded and missing, and the limit on wrong keys.
func TestRequestsAreExplainedAsTheGatewayAnswers(t *testing.T) {
	s := gated(t, shop+"idempotency: {orders: {match: POST /orders, required: true}}\n")
	c, ctx := s.admin(t), t.Context()
	var wrong *client.Error
	if _, err := c.ExplainRequest(ctx, client.Request{Method: "GET", Path: "/a#b"}); !errors.As(err, &wrong) || wrong.Status != 400 || wrong.Field != "path" {
		t.Error(err)
	}
	order := client.Request{Method: "POST", Path: "/orders", Address: "192.0.2.1"}
	if e := must(c.ExplainRequest(ctx, order))(t); e.Status != 400 || !strings.Contains(e.Message, "Idempotency-Key") {
		t.Errorf("%+v", e)
	}
	order.Headers = map[string]string{"Idempotency-Key": "17"}
	if e := must(c.ExplainRequest(ctx, order))(t); e.Status != 200 || e.Message != "" {
		t.Errorf("%+v", e)
	}
	e := must(c.ExplainRequest(ctx, client.Request{Method: "GET", Path: "/", Key: "wrong", Address: "192.0.2.1"}))(t)
	if last := e.Applied[len(e.Applied)-1]; e.Status != 401 || last.Label != "invalid-credentials" || last.Rule.String() != "20/minute" {
		t.Errorf("%+v", e.Applied)
	}
}

// TestLeasesTellTheCostTheyHave after it was changed.
func TestLeasesTellTheCostTheyHave(t *testing.T) {
	s := stage(t, nil)
	c, ctx := s.admin(t), t.Context()
	lease, _, err := c.Acquire(ctx, client.Take{Entity: "alice", Cost: sluice.Tokens(5), Limits: map[string]sluice.Limit{"tpm": sluice.MustParse("100/hour")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, cost := range []int64{7, 3} {
		d := must(lease.Adjust(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(cost)}))(t)
		if d.Demands[0].Cost != sluice.Tokens(cost) {
			t.Errorf("adjusted to %d: %v", cost, d.Demands[0].Cost)
		}
	}
	if d := must(lease.Commit(ctx, sluice.LimitCost{Limit: "tpm", Cost: sluice.Tokens(4)}))(t); d.Demands[0].Cost != sluice.Tokens(4) {
		t.Errorf("committed: %v", d.Demands[0].Cost)
	}
}

// TestARefusalNamesTheLevel, and the tier where the tier has the limit.
func TestARefusalNamesTheLevel(t *testing.T) {
	s := gated(t, shop)
	c, ctx := s.admin(t), t.Context()
	must(c.Take(ctx, client.Take{Entity: "ip:192.0.2.1", Resource: "search", Cost: sluice.Tokens(10)}))(t)
	if e := must(c.ExplainRequest(ctx, client.Request{Method: "POST", Path: "/api/search", Address: "192.0.2.1"}))(t); strings.Contains(e.Message, "tier") {
		t.Error(e.Message)
	}
	must(c.Take(ctx, client.Take{Entity: "ip:192.0.2.2", Resource: "global", Cost: sluice.Tokens(5)}))(t)
	if e := must(c.ExplainRequest(ctx, client.Request{Method: "GET", Path: "/", Address: "192.0.2.2"}))(t); !strings.Contains(e.Message, "of the free tier") {
		t.Error(e.Message)
	}
}
