package httplimit_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/identity"
	"github.com/sluice-go/sluice/internal/wiretest"
	"github.com/sluice-go/sluice/policy"
)

func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

var sample = fmt.Sprintf(`
version: 1
namespace: test
tiers:
  free: {upgrade: https://example.com/upgrade, limits: {global: 5/hour}}
  pro: {limits: {global: 1000/hour}}
default_tier: free
limits:
  global: {per: caller}
  search: {per: caller, match: POST /search, limit: 10/minute}
  address: {per: ip, limit: 50/minute}
  tenant: {per: 'header:X-Tenant', match: /tenants/**, limit: 2/minute}
  shadow: {per: caller, match: /shadow, limit: 1/hour, shadow: true}
  running: {per: everyone, match: /slow, limit: 1 concurrent}
  tokens: {per: caller, match: /complete, limit: {tpm: 100/minute}}
endpoints:
  search: {match: POST /search, cost: 3}
  complete: {match: /complete, cost: {tpm: 10}, settle: {tpm: X-Tokens-Used}}
exempt: {methods: OPTIONS, match: GET /healthz}
allow: [user:boss, 'key:ci', 192.0.2.0/24]
deny: ['key:evil', 198.51.100.0/24]
identity:
  keys:
    - {name: f, sha256: %s, tier: free}
    - {name: p, sha256: %s, tier: pro, entity: acme}
    - {name: ci, sha256: %s}
    - {name: evil, sha256: %s}
  address: {trusted_proxies: [127.0.0.1, '::1']}
headers: {send: [ietf, legacy, x-ratelimit], cost: true, source: true}
refusal: {docs: 'https://example.com/docs'}
`, hash("free"), hash("pro"), hash("ci"), hash("evil"))

func parse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func gate(t testing.TB, text string, change ...func(*httplimit.Config)) *httplimit.Gate {
	t.Helper()
	p := parse(t, text)
	c := httplimit.Config{Limiter: limiter(t), Policy: p, Log: quiet}
	for _, f := range change {
		f(&c)
	}
	g, err := httplimit.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return g
}

func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = nil
	s.Start()
	t.Cleanup(s.Close)
	return s
}

type reply struct {
	*http.Response
	body    string
	problem httplimit.Problem
}

// ask sends a request over a socket. Headers come in pairs.
func ask(t testing.TB, url, method, path string, header ...string) reply {
	t.Helper()
	response, b := wiretest.Do(t, method, url+path, nil, header...)
	a := reply{Response: response, body: b}
	if len(b) > 0 && strings.HasSuffix(response.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal([]byte(b), &a.problem); err != nil {
			t.Errorf("%s: %v", b, err)
		}
	}
	return a
}

func hello(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }

func TestARefusalSaysWhichLimitAndWhen(t *testing.T) {
	s := serve(t, gate(t, sample).Wrap(http.HandlerFunc(hello)))
	for i := range 5 {
		if a := ask(t, s.URL, "GET", "/a", "X-API-Key", "free"); a.StatusCode != 200 || a.body != "hello" {
			t.Fatalf("request %d: %d %s", i, a.StatusCode, a.body)
		}
	}
	a := ask(t, s.URL, "GET", "/a", "X-API-Key", "free")
	if a.StatusCode != 429 || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d %v", a.StatusCode, a.Header)
	}
	p := a.problem
	if p.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" || p.Status != 429 ||
		!slices.Equal(p.Violated, []string{"global"}) || p.Code != "ERR_RATE_LIMIT" || p.Tier != "free" ||
		p.Limit != "global" || p.Rule != "5/hour" || p.Docs != "https://example.com/docs" || p.Upgrade != "https://example.com/upgrade" ||
		p.RetryAfter == nil || *p.RetryAfter != 720 || p.Message == "" || p.Detail != p.Message {
		t.Errorf("got %s", a.body)
	}
	if a.Header.Get("Retry-After") != "720" || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", a.Header)
	}
	if b := ask(t, s.URL, "GET", "/a", "X-API-Key", "pro"); b.StatusCode != 200 {
		t.Errorf("somebody else: %d %s", b.StatusCode, b.body)
	}
	if h := ask(t, s.URL, "HEAD", "/a", "X-API-Key", "free"); h.StatusCode != 429 || h.body != "" {
		t.Errorf("HEAD: %d %q", h.StatusCode, h.body)
	}
}

func TestACostAboveTheLimitCanNeverPass(t *testing.T) {
	tight := func(c *httplimit.Config) { c.Resolver = new(stub) }
	s := serve(t, gate(t, sample, tight).Wrap(http.HandlerFunc(hello)))
	a := ask(t, s.URL, "POST", "/search", "X-API-Key", "pro") // at a cost of 3
	if a.StatusCode != 429 || a.Header.Get("Retry-After") != "" || a.problem.RetryAfter != nil || !strings.Contains(a.problem.Message, "never") {
		t.Errorf("%d %v %s", a.StatusCode, a.Header, a.body)
	}
}

func TestPlainJSON(t *testing.T) {
	s := serve(t, gate(t, strings.Replace(sample, "refusal: {", "refusal: {format: json, code: SLOW_DOWN, message: calm down, ", 1)).Wrap(http.HandlerFunc(hello)))
	ask(t, s.URL, "POST", "/search", "X-API-Key", "free")
	a := ask(t, s.URL, "POST", "/search", "X-API-Key", "free")
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		t.Fatal(err)
	}
	if a.Header.Get("Content-Type") != "application/json" || m["code"] != "SLOW_DOWN" || m["message"] != "calm down" || m["type"] != nil || m["error"] == nil {
		t.Errorf("%v %s", a.Header, a.body)
	}
}

func TestEveryFamilyOfHeaders(t *testing.T) {
	s := serve(t, gate(t, sample).Wrap(http.HandlerFunc(hello)))
	now := time.Now()
	a := ask(t, s.URL, "POST", "/search", "X-API-Key", "pro")
	policies, err := httpsfv.UnmarshalList(a.Header.Values("RateLimit-Policy"))
	if err != nil {
		t.Fatal(err, a.Header)
	}
	limits, err := httpsfv.UnmarshalList(a.Header.Values("RateLimit"))
	if err != nil {
		t.Fatal(err, a.Header)
	}
	type line struct {
		name       string
		q, w, r, t int64
	}
	var got []line
	for i := range policies {
		p, l := policies[i].(httpsfv.Item), limits[i].(httpsfv.Item)
		n := func(i httpsfv.Item, name string) int64 { v, _ := i.Params.Get(name); n, _ := v.(int64); return n }
		if p.Value != l.Value {
			t.Errorf("%v and %v do not go together", p.Value, l.Value)
		}
		got = append(got, line{p.Value.(string), n(p, "q"), n(p, "w"), n(l, "r"), n(l, "t")})
	}
	want := []line{{"global", 1000, 3600, 997, 11}, {"search", 10, 60, 7, 18}, {"address", 50, 60, 47, 4}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, want := range map[string]string{
		"RateLimit-Limit": "10", "RateLimit-Remaining": "7", "RateLimit-Reset": "18",
		"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "7",
		"X-RateLimit-Cost": "3", "X-RateLimit-Source": "store", "Retry-After": "", "X-RateLimit-Degraded": "",
	} {
		if got := a.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	// It takes 18 s from the request on, and whoever comes then must not be early.
	if reset, err := strconv.ParseInt(a.Header.Get("X-RateLimit-Reset"), 10, 64); err != nil || time.Unix(reset, 0).Before(now.Add(18*time.Second)) || reset > time.Now().Unix()+19 {
		t.Errorf("X-RateLimit-Reset: %q at %s", a.Header.Get("X-RateLimit-Reset"), now)
	}
}

// TestAHandlerMayChangeItsHeaders: header values share memory between requests,
// and what is written about a limit is kept for the next one under it. Neither
// may show.
func TestAHandlerMayChangeItsHeaders(t *testing.T) {
	g := gate(t, fmt.Sprintf(`
version: 1
tiers: {free: {limits: {a: 1000/day}}, pro: {limits: {a: 2000/day}}}
default_tier: free
limits:
  a: {per: caller, match: /a}
  b: {per: caller, match: /b, limit: 1000/day}
identity: {keys: [{name: p, sha256: %s, tier: pro}]}
`, hash("pro")))
	h := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Rude") != "" {
			for name, values := range w.Header() {
				values[0] = "mine"
				w.Header()[name] = append(values, "and mine")
			}
		}
	}))
	kinds := []struct {
		path, key, name string
		quota, left     int
	}{{"/a", "", "a", 1000, 1000}, {"/a", "pro", "a", 2000, 2000}, {"/b", "", "b", 1000, 1000}}
	var got []http.Header
	for i := range 300 {
		k := &kinds[i/2%3]
		r := httptest.NewRequest(http.MethodGet, k.path, nil)
		if k.key != "" {
			r.Header.Set("X-API-Key", k.key)
		}
		if i%7 == 0 {
			r.Header.Set("Rude", "yes")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got = append(got, w.Header())
	}
	for i, header := range got {
		k := &kinds[i/2%3]
		k.left--
		limits, said := header["Ratelimit-Policy"], header["Ratelimit"]
		if i%7 == 0 {
			if want := []string{"mine", "and mine"}; !slices.Equal(limits, want) || !slices.Equal(said, want) {
				t.Errorf("request %d: %q, %q", i, limits, said)
			}
			continue
		}
		want := fmt.Sprintf("%q;q=%d;w=86400", k.name, k.quota)
		if begins := fmt.Sprintf("%q;r=%d;t=", k.name, k.left); !slices.Equal(limits, []string{want}) || len(said) != 1 || !strings.HasPrefix(said[0], begins) {
			t.Errorf("request %d: %q, %q, want %q and %q…", i, limits, said, want, begins)
		}
	}
}

func TestUserAndAddressAreLimitedInOneTake(t *testing.T) {
	s := serve(t, gate(t, sample).Wrap(http.HandlerFunc(hello)))
	// 51 different anonymous callers cannot be had from one address, but keys
	// can: the address runs out while the key has plenty.
	for range 50 {
		if a := ask(t, s.URL, "GET", "/", "X-API-Key", "pro", "X-Forwarded-For", "203.0.113.7"); a.StatusCode != 200 {
			t.Fatal(a.StatusCode, a.body)
		}
	}
	before := ask(t, s.URL, "GET", "/", "X-API-Key", "pro", "X-Forwarded-For", "203.0.113.8").Header.Get("RateLimit")
	a := ask(t, s.URL, "GET", "/", "X-API-Key", "pro", "X-Forwarded-For", "203.0.113.7")
	if a.StatusCode != 429 || !slices.Equal(a.problem.Violated, []string{"address"}) {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if !strings.Contains(before, `"global";r=949`) || !strings.Contains(a.Header.Get("RateLimit"), `"global";r=949`) {
		t.Errorf("a refusal took from the key: %s, then %s", before, a.Header.Get("RateLimit"))
	}
	// What the client claims left of its proxy's word does not help.
	for _, spoofed := range []string{"1.2.3.4, 203.0.113.7", "203.0.113.7", "9.9.9.9,203.0.113.7,127.0.0.1"} {
		if a := ask(t, s.URL, "GET", "/", "X-API-Key", "pro", "X-Forwarded-For", spoofed); a.StatusCode != 429 {
			t.Errorf("%q got past: %d", spoofed, a.StatusCode)
		}
	}
}

func TestInvalidCredentialsAreRefusedAndLimited(t *testing.T) {
	s := serve(t, gate(t, sample, func(c *httplimit.Config) { c.Guesses = sluice.Per(3, time.Minute) }).Wrap(http.HandlerFunc(hello)))
	for i := range 3 {
		a := ask(t, s.URL, "GET", "/", "X-API-Key", "guess"+strconv.Itoa(i))
		if a.StatusCode != 401 || a.problem.Code != "ERR_INVALID_CREDENTIALS" || a.Header.Get("WWW-Authenticate") == "" || strings.Contains(a.body, "guess") {
			t.Fatalf("%d %s", a.StatusCode, a.body)
		}
	}
	a := ask(t, s.URL, "GET", "/", "X-API-Key", "guess")
	if a.StatusCode != 429 || !slices.Equal(a.problem.Violated, []string{"invalid-credentials"}) || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
	if b := ask(t, s.URL, "GET", "/", "X-API-Key", "pro"); b.StatusCode != 200 {
		t.Errorf("a valid key from the same address: %d", b.StatusCode)
	}
	if b := ask(t, s.URL, "GET", "/slow", "X-API-Key", "guess", "X-Forwarded-For", "203.0.113.9"); b.StatusCode != 401 {
		t.Errorf("where a lease would be needed: %d %s", b.StatusCode, b.body)
	}
}

func TestListsAndExemptions(t *testing.T) {
	s := serve(t, gate(t, sample).Wrap(http.HandlerFunc(hello)))
	for range 60 {
		for _, header := range [][]string{{"X-API-Key", "ci"}, {"X-Forwarded-For", "192.0.2.5"}} {
			if a := ask(t, s.URL, "GET", "/a", header...); a.StatusCode != 200 || a.Header.Get("RateLimit") != "" {
				t.Fatal("allow-listed", a.StatusCode, a.Header)
			}
		}
	}
	for range 6 {
		if a := ask(t, s.URL, "OPTIONS", "/a"); a.StatusCode != 200 {
			t.Fatal("OPTIONS", a.StatusCode)
		}
		if a := ask(t, s.URL, "GET", "/healthz", "X-API-Key", "wrong"); a.StatusCode != 200 {
			t.Fatal("health check", a.StatusCode)
		}
	}
	for _, header := range [][]string{{"X-API-Key", "evil"}, {"X-Forwarded-For", "198.51.100.1"}, {"X-API-Key", "ci", "X-Forwarded-For", "198.51.100.1"}} {
		if a := ask(t, s.URL, "GET", "/a", header...); a.StatusCode != 403 || a.problem.Code != "ERR_DENIED" {
			t.Errorf("denied %v: %d %s", header, a.StatusCode, a.body)
		}
	}
}

func TestLimitsByHeader(t *testing.T) {
	s := serve(t, gate(t, sample).Wrap(http.HandlerFunc(hello)))
	status := func(header ...string) int {
		return ask(t, s.URL, "GET", "/tenants/x", append(header, "X-API-Key", "pro")...).StatusCode
	}
	long := strings.Repeat("x", 4000)
	for _, who := range [][]string{{"X-Tenant", "a"}, {"X-Tenant", "b"}, {}, {"X-Tenant", long}} {
		if got := []int{status(who...), status(who...), status(who...)}; !slices.Equal(got, []int{200, 200, 429}) {
			t.Errorf("%.20v: %v", who, got)
		}
	}
	if status("X-Tenant", "") != 429 {
		t.Error("an empty header is not the bucket of those without")
	}
	if status("X-Tenant", long+"y") != 200 {
		t.Error("long values are mixed up")
	}
}

func TestShadowLimitsNeverBlockNorShow(t *testing.T) {
	s := serve(t, gate(t, sample).Wrap(http.HandlerFunc(hello)))
	for range 3 {
		a := ask(t, s.URL, "GET", "/shadow", "X-API-Key", "pro")
		if a.StatusCode != 200 || strings.Contains(a.Header.Get("RateLimit"), "shadow") || strings.Contains(a.Header.Get("RateLimit-Policy"), "shadow") {
			t.Errorf("%d %v", a.StatusCode, a.Header)
		}
	}
}

func TestAStrangePathDoesNotGetPast(t *testing.T) {
	s := serve(t, gate(t, sample).Wrap(http.HandlerFunc(hello)))
	for _, path := range []string{"/search", "//search", "/./search", "/x/../search", "/%73earch", "/search/"} {
		ask(t, s.URL, "POST", path, "X-API-Key", "pro")
	}
	if a := ask(t, s.URL, "POST", "/search", "X-API-Key", "pro"); a.StatusCode != 429 {
		t.Errorf("%d %v", a.StatusCode, a.Header)
	}
}

func TestACatalogThatIsDownIs503(t *testing.T) {
	g := gate(t, sample, func(c *httplimit.Config) {
		c.Verify = func(context.Context, string) (identity.Verified, error) {
			return identity.Verified{}, errors.New("down")
		}
	})
	a := ask(t, serve(t, g.Wrap(http.HandlerFunc(hello))).URL, "GET", "/", "X-API-Key", "stored")
	if a.StatusCode != 503 || a.problem.Code != "ERR_LIMITER_UNAVAILABLE" || a.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// stub resolves as the file says, but for one entity.
type stub struct {
	catalog.Declared
	err error
}

func (s *stub) Resolve(ctx context.Context, subject catalog.Subject) (*catalog.Resolution, error) {
	if s.err != nil {
		return nil, s.err
	}
	r, err := s.Declared.Resolve(ctx, subject)
	if err != nil || subject.Entity != "acme" {
		return r, err
	}
	limit := func(entity, label string, n int64) catalog.Applied {
		return catalog.Applied{Entity: entity, Resource: "global", Limit: catalog.DefaultLimit, Label: label, Level: sluice.LevelEntity,
			Setting: catalog.Setting{Limit: sluice.Per(n, time.Hour)}, From: catalog.FromStore}
	}
	return &catalog.Resolution{Subject: subject, Applied: []catalog.Applied{limit("acme", "global", 2), limit("holding", "holding/global", 9)}}, nil
}

func TestStoredLimitsTakeTheFilesPlace(t *testing.T) {
	g := gate(t, sample, func(c *httplimit.Config) { c.Resolver = new(stub) })
	s := serve(t, g.Wrap(http.HandlerFunc(hello)))
	a := ask(t, s.URL, "GET", "/", "X-API-Key", "pro")
	if got := a.Header.Get("RateLimit-Policy"); got != `"global";q=2;w=3600, "holding/global";q=9;w=3600, "address";q=50;w=60` {
		t.Errorf("got %s", got)
	}
	ask(t, s.URL, "GET", "/", "X-API-Key", "pro")
	if a := ask(t, s.URL, "GET", "/", "X-API-Key", "pro"); a.StatusCode != 429 || a.problem.Rule != "2/hour" {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// TestAResolverThatIsDown leaves the policy's numbers, except where they are
// not to be guessed at.
func TestAResolverThatIsDown(t *testing.T) {
	down := func(c *httplimit.Config) { c.Resolver = &stub{err: errors.New("down")} }
	a := ask(t, serve(t, gate(t, sample, down).Wrap(http.HandlerFunc(hello))).URL, "GET", "/", "X-API-Key", "pro")
	if got := a.Header.Get("RateLimit-Policy"); got != `"global";q=1000;w=3600, "address";q=50;w=60` {
		t.Errorf("%d %s", a.StatusCode, got)
	}
	strict := strings.Replace(sample, "address: {per: ip,", "address: {per: ip, on_unavailable: deny,", 1)
	if a := ask(t, serve(t, gate(t, strict, down).Wrap(http.HandlerFunc(hello))).URL, "GET", "/", "X-API-Key", "pro"); a.StatusCode != 503 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// TestANewPolicyCountsFromTheNextRequestOn, its keys included.
func TestANewPolicyCountsFromTheNextRequestOn(t *testing.T) {
	g := gate(t, sample)
	s := serve(t, g.Wrap(http.HandlerFunc(hello)))
	for range 3 {
		ask(t, s.URL, "GET", "/", "X-API-Key", "free")
	}
	use := func(p *policy.Policy) {
		t.Helper()
		if err := g.Use(p); err != nil {
			t.Fatal(err)
		}
	}
	use(parse(t, strings.Replace(sample, "global: 5/hour", "global: 4/hour", 1)))
	if a := ask(t, s.URL, "GET", "/", "X-API-Key", "free"); a.StatusCode != 200 || !strings.Contains(a.Header.Get("RateLimit"), `"global";r=0`) {
		t.Errorf("the bucket did not keep its state: %d %v", a.StatusCode, a.Header)
	}
	// One whose keys cannot be read changes nothing, and says why.
	bad := parse(t, strings.Replace(sample, "  address: {trusted", "  jwt: {algorithms: [HS256], secret_file: /nowhere/at/all}\n  address: {trusted", 1))
	if err := g.Use(bad); err == nil || !strings.Contains(err.Error(), "secret_file") {
		t.Errorf("got %v", err)
	}
	if a := ask(t, s.URL, "GET", "/", "X-API-Key", "pro"); a.StatusCode != 200 {
		t.Errorf("the old policy is gone: %d %s", a.StatusCode, a.body)
	}
	// A key that is removed does not pass once more, and a new one does at once.
	use(parse(t, strings.Replace(sample, hash("pro"), hash("newer"), 1)))
	for key, want := range map[string]int{"pro": 401, "newer": 200} {
		if a := ask(t, s.URL, "GET", "/", "X-API-Key", key, "X-Forwarded-For", "192.0.2.1"); a.StatusCode != want {
			t.Errorf("%s: %d", key, a.StatusCode)
		}
	}
}
