package httplimit_test

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/httplimit/abuse"
)

func TestThoseWhoGoOnAreBanned(t *testing.T) {
	guard, err := abuse.New(abuse.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	text := sample + "abuse: {ban: {refusals: 3, within: 1m, for: 10m}}\n"
	s := serve(t, gate(t, text, func(c *httplimit.Config) { c.Abuse = guard }).Wrap(http.HandlerFunc(hello)))
	var got []int
	for range 10 {
		got = append(got, ask(t, s.URL, "GET", "/", "X-API-Key", "free").StatusCode)
	}
	if want := []int{200, 200, 200, 200, 200, 429, 429, 429, 429, 429}; !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
	a := ask(t, s.URL, "GET", "/", "X-API-Key", "free")
	if a.problem.Code != "ERR_BANNED" || a.problem.Type != "https://iana.org/assignments/http-problem-types#abnormal-usage-detected" || a.Header.Get("Retry-After") != "600" {
		t.Errorf("%v %s", a.Header, a.body)
	}
	if b := ask(t, s.URL, "GET", "/", "X-API-Key", "pro"); b.StatusCode != 200 {
		t.Errorf("somebody else: %d", b.StatusCode)
	}
	if lifted, err := guard.Lift(t.Context(), "key:f", "admin"); err != nil || !lifted {
		t.Errorf("not on the list: %+v, %v", guard.List(), err)
	}
	if a := ask(t, s.URL, "GET", "/", "X-API-Key", "free"); a.problem.Code != "ERR_RATE_LIMIT" {
		t.Errorf("after it was lifted: %s", a.body)
	}
	// Guessing keys bans the address; nothing bans those on the allow list.
	for i := range 4 {
		ask(t, s.URL, "GET", "/", "X-API-Key", "guess"+strconv.Itoa(i), "X-Forwarded-For", "203.0.113.50")
		ask(t, s.URL, "GET", "/", "X-API-Key", "ci")
	}
	if a := ask(t, s.URL, "GET", "/", "X-Forwarded-For", "203.0.113.50"); a.problem.Code != "ERR_BANNED" {
		t.Errorf("after guessing: %d %s", a.StatusCode, a.body)
	}
	if a := ask(t, s.URL, "GET", "/", "X-API-Key", "ci"); a.StatusCode != 200 {
		t.Errorf("allow-listed: %d", a.StatusCode)
	}
}

func TestEmergencyLimitsApplyOnTop(t *testing.T) {
	guard, err := abuse.New(abuse.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	text := sample + "abuse: {emergency: {factor: 2, baseline: 1ms, at_least: 10/s, limit: 2/hour, for: 10m}}\n"
	s := serve(t, gate(t, text, func(c *httplimit.Config) { c.Abuse = guard }).Wrap(http.HandlerFunc(hello)))
	var a reply
	for range 30 {
		if a = ask(t, s.URL, "GET", "/", "X-API-Key", "pro"); a.StatusCode == 429 {
			break
		}
	}
	if !slices.Equal(a.problem.Violated, []string{"emergency"}) || a.problem.Rule != "2/hour" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

func TestRefusalsAreWrittenDownBesideTheRequests(t *testing.T) {
	var mu sync.Mutex
	var written []httplimit.Refusal
	block := make(chan struct{})
	audit, err := httplimit.NewAudit(func(r httplimit.Refusal) {
		<-block
		mu.Lock()
		defer mu.Unlock()
		written = append(written, r)
	}, 4)
	if err != nil {
		t.Fatal(err)
	}
	text := sample + "audit: {tiers: [free], keep: 2}\n"
	s := serve(t, gate(t, text, func(c *httplimit.Config) { c.Audit = audit }).Wrap(http.HandlerFunc(hello)))
	for range 30 { // 5 pass; the writer blocks, and nobody waits for it
		ask(t, s.URL, "GET", "/", "X-API-Key", "free", "X-Forwarded-For", "203.0.113.77", "X-Request-Id", "abc-1")
	}
	for range 60 {
		ask(t, s.URL, "GET", "/", "X-API-Key", "pro") // runs into the address limit, and is not of a chosen tier
	}
	close(block)
	if err := audit.Close(); err != nil {
		t.Fatal(err)
	}
	ask(t, s.URL, "GET", "/", "X-API-Key", "free") // after Close it is only lost
	if n := int64(len(written)); n < 4 || n+audit.Dropped() != 25 {
		t.Fatalf("%d written, %d dropped", n, audit.Dropped())
	}
	r := written[0]
	if r.Entity != "key:****" || r.Address != "ip:****77" || r.Tier != "free" || r.Limit != "global" || r.Rule.String() != "5/hour" || r.RetryAfter < 11*time.Minute || r.Method != "GET" ||
		r.Path != "/" || !r.Remaining.IsZero() || r.Source != "store" || r.Degraded || r.RequestID != "abc-1" {
		t.Errorf("%+v", r)
	}
	for _, r := range written {
		if r.Tier != "free" || strings.Contains(r.Address, "203") {
			t.Errorf("%+v", r)
		}
	}
}

// While the store is away nobody is banned for going on, nor put under the
// emergency limit.
func TestNobodyIsBannedForTheStoresSake(t *testing.T) {
	guard, err := abuse.New(abuse.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	guarded, err := failover.New(awayStore(t), failover.Config{Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guarded.Close() })
	text := sample + "abuse: {ban: {refusals: 3, within: 1m, for: 10m}, emergency: {factor: 2, baseline: 1ms, at_least: 10/s, limit: 1/hour, for: 10m}}\n"
	for name, store := range map[string]sluice.Store{"local quota": guarded, "unavailable": awayStore(t)} {
		s := serve(t, gate(t, text, func(c *httplimit.Config) { c.Abuse, c.Limiter = guard, sluice.New(store) }).Wrap(http.HandlerFunc(hello)))
		refused := 0
		for range 40 {
			if a := ask(t, s.URL, "GET", "/", "X-API-Key", "free"); a.StatusCode != 200 {
				refused++
			}
		}
		if refused < 30 || len(guard.List()) != 0 {
			t.Errorf("%s: %d refused, and then %+v", name, refused, guard.List())
		}
	}
}
