package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
)

// asked sends a request from an address, with headers given as name and value,
// and returns the response.
func asked(h http.Handler, remote string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = remote + ":1234"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

var okay = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

// passes asks and fails the test unless the status is the one wanted.
func passes(t *testing.T, h http.Handler, want int, remote string, headers ...string) {
	t.Helper()
	if w := asked(h, remote, headers...); w.Code != want {
		t.Errorf("%s %v: %d, want %d: %s", remote, headers, w.Code, want, w.Body)
	}
}

func TestPerIPCountsAddresses(t *testing.T) {
	h := httplimit.PerIP("2/hour")(okay)
	passes(t, h, 200, "192.0.2.1")
	passes(t, h, 200, "192.0.2.1", "X-API-Key", "anything", "X-Forwarded-For", "198.51.100.9")
	passes(t, h, 429, "192.0.2.1", "X-API-Key", "something else")
	passes(t, h, 200, "192.0.2.2")
	w := asked(h, "192.0.2.1")
	if got := w.Header().Get("RateLimit-Policy"); got != `"ip";q=2;w=3600` {
		t.Errorf("RateLimit-Policy is %s", got)
	}
	if w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"code":"ERR_RATE_LIMIT"`) {
		t.Errorf("a refusal is not that of a gate: %v %s", w.Header(), w.Body)
	}
	passes(t, httplimit.PerIP("2/hour")(okay), 200, "192.0.2.1") // another middleware counts for itself
}

func TestPerIPBehindAProxy(t *testing.T) {
	h := httplimit.PerIP("1/hour", httplimit.Behind("10.0.0.0/8"))(okay)
	passes(t, h, 200, "10.1.2.3", "X-Forwarded-For", "192.0.2.1")
	passes(t, h, 429, "10.1.2.3", "X-Forwarded-For", "192.0.2.1")
	passes(t, h, 200, "10.1.2.3", "X-Forwarded-For", "192.0.2.2")
	passes(t, h, 200, "192.0.2.9", "X-Forwarded-For", "192.0.2.1") // not a proxy of ours
	passes(t, h, 429, "192.0.2.9", "X-Forwarded-For", "192.0.2.3")
}

func TestPerKeyCountsKeysElseAddresses(t *testing.T) {
	h := httplimit.PerKey("1/hour")(okay)
	passes(t, h, 200, "192.0.2.1", "X-API-Key", "a")
	passes(t, h, 429, "192.0.2.2", "X-API-Key", "a")
	passes(t, h, 429, "192.0.2.2", "Authorization", "Bearer a")
	passes(t, h, 200, "192.0.2.1", "X-API-Key", "b")
	passes(t, h, 200, "192.0.2.1")
	passes(t, h, 429, "192.0.2.1")
	passes(t, h, 401, "192.0.2.3", "X-API-Key", "c", "X-API-Key", "d") // which one would count?
}

func TestPerCountsWhomTheProgramNames(t *testing.T) {
	h := httplimit.Per("1/hour", func(r *http.Request) string { return r.Header.Get("Session") })(okay)
	passes(t, h, 200, "192.0.2.1", "Session", "ann")
	passes(t, h, 429, "192.0.2.2", "Session", "ann")
	passes(t, h, 200, "192.0.2.2", "Session", "bob")
	passes(t, h, 200, "192.0.2.1")
	passes(t, h, 429, "192.0.2.1")
	long := strings.Repeat("x", 1000)
	passes(t, h, 200, "192.0.2.1", "Session", long)
	passes(t, h, 429, "192.0.2.1", "Session", long)
	passes(t, h, 200, "192.0.2.1", "Session", long+"y")
}

func TestOnSharesAStoreByName(t *testing.T) {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	site := httplimit.PerIP("2/hour", httplimit.On(store, "site"))(okay)
	again := httplimit.PerIP("2/hour", httplimit.On(store, "site"))(okay) // as another process would
	login := httplimit.PerIP("1/hour", httplimit.On(store, "login"))(okay)
	passes(t, site, 200, "192.0.2.1")
	passes(t, login, 200, "192.0.2.1")
	passes(t, again, 200, "192.0.2.1")
	passes(t, site, 429, "192.0.2.1")
	passes(t, login, 429, "192.0.2.1")
}

func TestConcurrencyInOneLine(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	h := httplimit.PerIP("1 concurrent")(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Stay") != "" {
			close(inside)
			<-leave
		}
	}))
	done := make(chan struct{})
	go func() { defer close(done); asked(h, "192.0.2.1", "Stay", "yes") }()
	<-inside
	passes(t, h, 429, "192.0.2.1")
	close(leave)
	<-done
	passes(t, h, 200, "192.0.2.1")
}

func TestAnInvalidOneLinerPanics(t *testing.T) {
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for what, open := range map[string]func(){
		`limit "100 a minute"`: func() { httplimit.PerIP("100 a minute") },
		"trusted_proxies":      func() { httplimit.PerKey("1/s", httplimit.Behind("everybody")) },
		"limits":               func() { httplimit.PerIP("1/s", httplimit.On(store, "no such name!")) },
		"the store is nil":     func() { httplimit.PerIP("1/s", httplimit.On(nil, "site")) },
		"names callers is nil": func() { httplimit.Per("1/s", nil) },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, what) {
					t.Errorf("panic does not say %q: %s", what, text)
				}
			}()
			open()
		}()
	}
}

func TestTheProgramsOwnRefusals(t *testing.T) {
	teapot := httplimit.Refuse(func(w http.ResponseWriter, r *http.Request, c *httplimit.Call) {
		if c.Outcome != httplimit.Refused {
			c.Refuse(w)
			return
		}
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, "%s: %s", r.URL.Path, c.Problem().Message)
	})
	h := httplimit.PerKey("1/hour", teapot)(okay)
	passes(t, h, 200, "192.0.2.1")
	w := asked(h, "192.0.2.1")
	if w.Code != http.StatusTeapot || w.Header().Get("Retry-After") != "3600" || !strings.HasPrefix(w.Body.String(), "/: the limit key (1/hour) is exhausted") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	passes(t, h, 401, "192.0.2.2", "X-API-Key", "a", "X-API-Key", "b")
}

// A program with sessions of its own names entity and tier; the rest of the
// policy applies to them as to anybody.
func TestIdentifyNamesEntityAndTier(t *testing.T) {
	p, err := policy.Parse("test.yaml", []byte(`
version: 1
default_tier: free
tiers:
  free: {limits: {all: 1/hour}}
  pro: {limits: {all: 2/hour}}
limits:
  all: {per: caller}
  address: {per: ip, limit: 4/hour}
deny: ['user:mallory']
`))
	if err != nil {
		t.Fatal(err)
	}
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	g, err := httplimit.Open(t.Context(), httplimit.Config{
		Limiter: sluice.New(store), Policy: p,
		Identify: func(r *http.Request) (entity, tier string) { return r.Header.Get("Who"), r.Header.Get("Plan") },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	h := g.Wrap(okay)
	passes(t, h, 403, "192.0.2.1", "Who", "user:mallory")
	passes(t, h, 200, "192.0.2.1", "Who", "user:ann", "Plan", "pro")
	passes(t, h, 200, "192.0.2.2", "Who", "user:ann", "Plan", "pro")
	passes(t, h, 429, "192.0.2.3", "Who", "user:ann", "Plan", "pro")
	passes(t, h, 200, "192.0.2.1", "Who", "user:bob")
	passes(t, h, 429, "192.0.2.1", "Who", "user:bob")
	passes(t, h, 200, "192.0.2.1") // nobody in particular: the address
	passes(t, h, 200, "192.0.2.1", "Who", "user:carl")
	passes(t, h, 429, "192.0.2.1", "Who", "user:dora") // four from this address
	e := g.Explain(t.Context(), &httplimit.Request{Method: "GET", Path: "/", Remote: "192.0.2.7:1", Entity: "user:ann", Tier: "pro"})
	if e.Outcome != httplimit.Refused || e.Tier != "pro" || e.Identity.Entity != "user:ann" {
		t.Errorf("explained %v %s %s", e.Outcome, e.Tier, e.Identity.Entity)
	}
}
