package httplimit_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit"
)

// refusedCall is a call that was refused by the first of two limits.
func refusedCall(t *testing.T, first sluice.Limit, results ...sluice.Result) *httplimit.Call {
	demands := []sluice.Demand{
		{Key: sluice.Key{Limit: "first"}, Limit: first},
		{Key: sluice.Key{Limit: "second"}, Limit: sluice.MustParse("1000/day")},
	}
	p := parse(t, sample)
	return &httplimit.Call{
		Policy: p, Route: p.Match("GET", "/"), Outcome: httplimit.Refused, RetryAfter: time.Second, Labels: []string{"first", "second"},
		Decision: sluice.Decision{RetryAfter: time.Second, Source: sluice.FromDenyCache, Demands: demands, Results: results},
	}
}

// TestUnknownFiguresAreNotInHeaders: what is left of a limit that was not asked
// is left out, which is not the same as 0.
func TestUnknownFiguresAreNotInHeaders(t *testing.T) {
	for _, c := range []struct {
		results []sluice.Result
		want    map[string]string
	}{
		{
			[]sluice.Result{{RetryAfter: time.Second}, {Fits: true, Unknown: true}},
			map[string]string{"RateLimit": `"first";r=0;t=1`, "RateLimit-Remaining": "0", "RateLimit-Reset": "1"},
		},
		{
			[]sluice.Result{{RetryAfter: time.Second, Unknown: true}, {Fits: true, Unknown: true}},
			map[string]string{"RateLimit": "", "RateLimit-Remaining": "", "RateLimit-Reset": ""},
		},
	} {
		h := http.Header{}
		refusedCall(t, sluice.MustParse("10/minute"), c.results...).Headers(h)
		c.want["RateLimit-Policy"] = `"first";q=10;w=60, "second";q=1000;w=86400`
		c.want["RateLimit-Limit"], c.want["Retry-After"] = "10", "1"
		for name, want := range c.want {
			if got := h.Get(name); got != want {
				t.Errorf("%+v: %s is %q, want %q", c.results, name, got, want)
			}
		}
	}
}

// TestWhatIsHeldIsNotExhausted: who is refused for what others hold is told that
// it may pass sooner.
func TestWhatIsHeldIsNotExhausted(t *testing.T) {
	c := refusedCall(t, sluice.MustParse("10/day UTC"), sluice.Result{RetryAfter: time.Second, LatestAfter: time.Second, Held: true, Remaining: sluice.Tokens(2)}, sluice.Result{Fits: true})
	if p := c.Problem(); p.Message != "what is left of the limit first (10/day UTC) is held by nodes; retry in 1 s at the latest, and sooner if some of it comes back" {
		t.Error(p.Message)
	}
}

// TestConcurrencyTellsTheLatest: when a place is freed is a guess, and when one
// is at the latest is not.
func TestConcurrencyTellsTheLatest(t *testing.T) {
	c := refusedCall(t, sluice.MustParse("5 concurrent"), sluice.Result{RetryAfter: time.Second, LatestAfter: 10 * time.Minute}, sluice.Result{Fits: true})
	p := c.Problem()
	if p.RetryAfter == nil || *p.RetryAfter != 1 || p.LatestAfter == nil || *p.LatestAfter != 600 ||
		p.Message != "the limit first (5 concurrent) is exhausted; retry in 1 s, at the latest in 600 s" {
		t.Errorf("%+v", p)
	}
	c = refusedCall(t, sluice.MustParse("10/minute"), sluice.Result{RetryAfter: time.Second, LatestAfter: time.Second}, sluice.Result{Fits: true})
	if p := c.Problem(); p.LatestAfter != nil {
		t.Errorf("a bucket that refills has a latest: %+v", p)
	}
}
