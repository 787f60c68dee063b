package httplimit_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/policy"
)

// TestAHeaderThatIsSentTwice: the first one is made up anew each time, and the
// handler may go by the second.
func TestAHeaderThatIsSentTwice(t *testing.T) {
	for name, text := range map[string]string{
		"shared":  "version: 1\nlimits: {tenant: {per: 'header:X-Tenant', limit: 2/hour}}\n",
		"skipped": "version: 1\nlimits: {tenant: {per: 'header:X-Tenant', limit: 2/hour, missing: skip}}\n",
	} {
		s := serve(t, gate(t, text).Wrap(http.HandlerFunc(hello)))
		last := 0
		for _, made := range []string{"a", "b", "c"} {
			last = ask(t, s.URL, "GET", "/", "X-Tenant", made, "X-Tenant", "acme").StatusCode
		}
		if last != 429 {
			t.Errorf("%s: %d, want 429", name, last)
		}
	}
}

// TestACallerOfAnExemptRequestIsKnownWhereItMatters: a handler that replays
// responses must not take all callers for the same.
func TestACallerOfAnExemptRequestIsKnownWhereItMatters(t *testing.T) {
	var who []string
	g := gate(t, `
version: 1
limits: {all: {per: ip, limit: 1/hour}}
exempt: {match: POST /hooks}
idempotency: {hooks: {match: POST /hooks}}
identity: {keys: [{name: a, sha256: `+hash("a")+`}, {name: b, sha256: `+hash("b")+`}]}
`)
	s := serve(t, g.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c := httplimit.Admitted(r.Context())
		who = append(who, c.Identity.Entity)
	})))
	for _, key := range []string{"a", "b"} {
		if a := ask(t, s.URL, "POST", "/hooks", "X-API-Key", key); a.StatusCode != 200 {
			t.Fatal(a.StatusCode)
		}
	}
	if len(who) != 2 || who[0] != "key:a" || who[1] != "key:b" {
		t.Errorf("%q", who)
	}
	if a := ask(t, s.URL, "POST", "/hooks", "X-API-Key", "somebody else's"); a.StatusCode != 200 || !strings.HasPrefix(who[2], "ip:") {
		t.Errorf("another key: %d %q", a.StatusCode, who)
	}
}

// TestASetMayBeCalledEmergency: the gate's own buckets are apart from those of
// the policy.
func TestASetMayBeCalledEmergency(t *testing.T) {
	text := `
version: 1
limits: {emergency: {per: caller, limit: 1000/hour}, invalid-credentials: {per: ip, limit: {attempts: 1000/hour}}}
abuse: {emergency: {factor: 1, baseline: 1ns, at_least: 1/s, limit: 1 concurrent, for: 1h}}
identity: {keys: [{name: a, sha256: ` + hash("a") + `}]}
`
	guard, err := abuse.New(abuse.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	p := parse(t, text)
	s := serve(t, gate(t, text, func(c *httplimit.Config) { c.Abuse = guard }).Wrap(http.HandlerFunc(hello)))
	ask(t, s.URL, "GET", "/", "X-API-Key", "a")
	guard.Seen(&policy.Abuse{Emergency: &policy.Emergency{Factor: 1, Baseline: time.Nanosecond, AtLeast: sluice.Per(1, time.Second), For: time.Hour}}, "key:a", false)
	if !guard.Emergency("key:a") || p.Abuse.Emergency == nil {
		t.Fatal("there is no emergency")
	}
	if a := ask(t, s.URL, "GET", "/", "X-API-Key", "a"); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if a := ask(t, s.URL, "GET", "/", "X-API-Key", "wrong"); a.StatusCode != 401 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
