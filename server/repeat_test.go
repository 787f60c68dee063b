package server_test

import (
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/client"
)

// TestARequestIsRepeatedWhateverTheLimitsAre: the same request with the same key
// gets the first answer, by the limits of then, and another one is refused.
func TestARequestIsRepeatedWhateverTheLimitsAre(t *testing.T) {
	for _, path := range []string{"/v1/take", "/v1/leases"} {
		t.Run(path, func(t *testing.T) {
			s := stage(t, nil)
			c, ctx := s.admin(t), t.Context()
			must(c.SetLimits(ctx, catalog.Scope{}, limits("rpm", "50/hour"), 0))(t)
			header := bearer(adminToken)
			header["Idempotency-Key"] = "k"
			const body = `{"entity":"alice","cost":5}`
			if r := s.raw(t, "POST", path, body, header); r.status/100 != 2 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			must(c.SetLimits(ctx, catalog.Scope{Entity: "alice"}, limits("rpm", "60/hour", "rph", "1000/hour"), 0))(t)
			r := s.raw(t, "POST", path, body, header)
			if r.status/100 != 2 || r.json["repeated"] != true || r.json["rule"] != "50/hour" || len(r.json["results"].([]any)) != 1 {
				t.Errorf("%d %s; want the first answer", r.status, r.body)
			}
			if r := s.raw(t, "POST", path, `{"entity":"alice","cost":6}`, header); r.status != 422 || r.json["code"] != "key_reused" {
				t.Errorf("%d %s; want that the key is of another request", r.status, r.body)
			}
		})
	}
}

// TestALimitThatIsGoneRaisesNoAlarm: its bucket is shown, but the alarm of the
// entity is that of the limits in force.
func TestALimitThatIsGoneRaisesNoAlarm(t *testing.T) {
	s := stage(t, nil)
	c, ctx := s.admin(t), t.Context()
	must(c.SetLimits(ctx, catalog.Scope{}, limits("old", "10/hour"), 0))(t)
	must(c.Take(ctx, client.Take{Entity: "alice", Resource: "api", Cost: sluice.Tokens(10)}))(t)
	must(c.SetLimits(ctx, catalog.Scope{}, limits("new", "1000/hour"), 0))(t)
	got := s.raw(t, "GET", "/v1/status/alice/api", "", bearer(adminToken))
	if got.json["alarm"] != "ok" || len(got.json["limits"].([]any)) != 2 {
		t.Errorf("%d %s", got.status, got.body)
	}
}
