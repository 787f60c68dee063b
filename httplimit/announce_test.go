package httplimit_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
	"github.com/sluice-go/sluice/internal/testclock"
	"github.com/sluice-go/sluice/memory"
)

// still is a limiter for which no time passes.
func still(t testing.TB) func(*httplimit.Config) {
	t.Helper()
	store, err := memory.Open(memory.Config{Clock: testclock.New(time.Now()).Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return func(c *httplimit.Config) { c.Limiter = sluice.New(store) }
}

// A limit that is not announced refuses as others do, and callers are told when
// to come back and nothing else about it, whatever headers are sent.
func TestALimitThatIsNotAnnounced(t *testing.T) {
	g := gate(t, `
version: 1
limits:
  quota: {limit: 100/hour}
  guard: {limit: 3/hour, announce: false}
headers: {send: [ietf, legacy, x-ratelimit], reset_after: true}
`, still(t))
	s := serve(t, g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	var a reply
	for range 4 {
		a = ask(t, s.URL, "GET", "/")
		for name, values := range a.Header {
			if strings.Contains(strings.Join(values, ","), "guard") {
				t.Errorf("%s: %v", name, values)
			}
		}
		if got := a.Header.Get("RateLimit-Policy"); got != `"quota";q=100;w=3600` {
			t.Errorf("RateLimit-Policy: %s", got)
		}
		if got := a.Header.Get("X-RateLimit-Limit"); got != "100" || a.Header.Get("RateLimit-Limit") != "100" {
			t.Errorf("X-RateLimit-Limit: %s", got)
		}
	}
	p := a.problem
	if a.StatusCode != 429 || a.Header.Get("Retry-After") != "1200" || p.RetryAfter == nil || *p.RetryAfter != 1200 {
		t.Errorf("%d, Retry-After %s, %+v", a.StatusCode, a.Header.Get("Retry-After"), p)
	}
	if p.Limit != "" || p.Rule != "" || p.Capacity != nil || p.Remaining != nil || p.Violated != nil || p.Message != "too many requests; retry in 1200 s" {
		t.Errorf("the body tells of it: %+v", p)
	}
}

// Without any limit to tell about, there are no headers.
func TestNothingIsAnnounced(t *testing.T) {
	g := gate(t, "version: 1\nlimits: {guard: {limit: 1/hour, announce: false}}\nheaders: {send: [ietf, legacy, x-ratelimit], reset_after: true}\n", still(t))
	s := serve(t, g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	for range 2 {
		for name := range ask(t, s.URL, "GET", "/").Header {
			if strings.Contains(name, "Ratelimit") {
				t.Errorf("there is %s", name)
			}
		}
	}
}

func TestResetAfter(t *testing.T) {
	g := gate(t, "version: 1\nlimits: {all: {limit: 100/minute burst 20}}\nheaders: {send: [x-ratelimit], reset_after: true}\n", still(t))
	s := serve(t, g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	if got := ask(t, s.URL, "GET", "/").Header.Get("X-RateLimit-Reset-After"); got != "0.6" {
		t.Errorf("X-RateLimit-Reset-After: %q", got)
	}
}

// The body of a refusal has the numbers of the limit and what remains.
func TestARefusalHasTheNumbers(t *testing.T) {
	g := gate(t, "version: 1\nlimits: {all: {limit: 100/minute burst 20}}\nendpoints: {big: {match: /big, cost: 15}}\n", still(t))
	s := serve(t, g.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	ask(t, s.URL, "GET", "/big")
	p := ask(t, s.URL, "GET", "/big").problem
	if p.Rule != "100/minute burst 20" || p.Level != "resource" || p.Capacity == nil || p.Capacity.String() != "20" || p.Remaining == nil || p.Remaining.String() != "5" {
		t.Errorf("%+v", p)
	}
}
