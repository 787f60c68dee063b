package sluice_test

import (
	"errors"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

func TestConclude(t *testing.T) {
	tok := sluice.Token
	limits := []sluice.Demand{demand("a", "10/s", 1), demand("b", "100/s", 1), demand("c", "1000/s", 1)}
	shadowed := func(which ...int) []sluice.Demand {
		ds := append([]sluice.Demand(nil), limits...)
		for _, i := range which {
			ds[i].Shadow = true
		}
		return ds
	}
	fits := func(remaining int64) sluice.Result {
		return sluice.Result{Fits: true, Consumed: sluice.Thousandths(tok), Remaining: sluice.Thousandths(remaining)}
	}
	refuses := func(retry time.Duration) sluice.Result { return sluice.Result{RetryAfter: retry} }
	for _, c := range []struct {
		name    string
		allowed bool
		demands []sluice.Demand
		results []sluice.Result
		decider int
		granted int64
		retry   time.Duration
	}{
		{"the scarcest share decides", true, limits,
			[]sluice.Result{fits(5 * tok), fits(40 * tok), fits(600 * tok)}, 1, tok, 0},
		{"of equal ones the first", true, limits,
			[]sluice.Result{fits(5 * tok), fits(50 * tok), fits(500 * tok)}, 0, tok, 0},
		{"a debt is the scarcest", true, limits,
			[]sluice.Result{fits(0), fits(50 * tok), fits(-1)}, 2, tok, 0},
		{"a shadow does not decide", true, shadowed(0),
			[]sluice.Result{refuses(time.Hour), fits(50 * tok), fits(600 * tok)}, 1, tok, 0},
		{"unless there are only shadows", true, shadowed(0, 1, 2),
			[]sluice.Result{fits(5 * tok), refuses(time.Hour), fits(600 * tok)}, 1, 0, 0},
		{"the longest wait decides", false, limits,
			[]sluice.Result{refuses(time.Second), refuses(3 * time.Second), refuses(2 * time.Second)}, 1, 0, 3 * time.Second},
		{"who refused decides", false, limits,
			[]sluice.Result{fits(0), fits(0), refuses(time.Second)}, 2, 0, time.Second},
		{"never is the longest", false, limits,
			[]sluice.Result{refuses(time.Second), refuses(sluice.Never), refuses(2 * time.Second)}, 1, 0, sluice.Never},
		{"a shadow refuses nothing", false, shadowed(1),
			[]sluice.Result{refuses(time.Second), refuses(sluice.Never), fits(0)}, 0, 0, time.Second},
		{"a refusal of unknown length is one", false, limits,
			[]sluice.Result{fits(0), refuses(0), fits(0)}, 1, 0, 0},
	} {
		// A decision is used again: what it said before must not show.
		d := sluice.Decision{Allowed: c.allowed, Demands: c.demands, Results: c.results,
			RetryAfter: time.Hour, Decider: 2, Granted: sluice.Thousandths(77)}
		d.Conclude()
		if d.Decider != c.decider || d.Granted.Thousandths() != c.granted || d.RetryAfter != c.retry {
			t.Errorf("%s: decided by %d, granted %s, retry after %s", c.name, d.Decider, d.Granted, d.RetryAfter)
		}
		demand, result := d.Deciding()
		if demand != c.demands[c.decider] || result != c.results[c.decider] {
			t.Errorf("%s: %+v, %+v", c.name, demand, result)
		}
		if (d.Err() == nil) != c.allowed {
			t.Errorf("%s: %v", c.name, d.Err())
		}
	}
}

// TestConcludeTellsGuessesApart: nobody knows when a place in flight is freed,
// so when to come back is a guess, apart from when it is free at the latest.
func TestConcludeTellsGuessesApart(t *testing.T) {
	for limit, want := range map[string]time.Duration{"1/s": time.Minute, "1 concurrent": sluice.ConcurrencyRetry} {
		d := sluice.Decision{Demands: []sluice.Demand{demand("a", limit, 1)}, Results: []sluice.Result{{RetryAfter: time.Minute}}}
		for range 2 { // it may be concluded again
			d.Conclude()
			if r := d.Results[0]; d.RetryAfter != want || r.RetryAfter != want || r.LatestAfter != time.Minute {
				t.Errorf("%s: %+v", limit, d)
			}
		}
	}
}

func TestRefusedError(t *testing.T) {
	dm := demand("rpm", "100/minute", 7)
	dm.Level = sluice.LevelTier
	d := sluice.Decision{Demands: []sluice.Demand{dm}, Results: make([]sluice.Result, 1), RetryAfter: 4200 * time.Millisecond, Source: sluice.FromDenyCache}
	var refused *sluice.RefusedError
	if err := d.Err(); !errors.As(err, &refused) || refused.Demand != dm || refused.Source != sluice.FromDenyCache ||
		err.Error() != "refused by ann/api/rpm (100/minute, from tier): retry in 4.2s" {
		t.Errorf("%v", err)
	}
	if d.Reason() != "" {
		t.Errorf("a refusal that stands has the reason %q", d.Reason())
	}
	d.Source = sluice.Unknown
	if err := d.Err(); err.Error() != "refused by ann/api/rpm (100/minute, from tier): local quota while the store is away, retry in 4.2s" {
		t.Errorf("%v", err)
	}
	d.Demands[0].Critical = true
	if d.Reason() != "denied while the store is away" {
		t.Errorf("a critical limit: %q", d.Reason())
	}
	d.RetryAfter = sluice.Never
	if err := d.Err(); err.Error() != "refused by ann/api/rpm (100/minute, from tier): a cost of 7 can never pass" {
		t.Errorf("%v", err)
	}
}

func TestUtilization(t *testing.T) {
	b := sluice.Bucket{Limit: sluice.MustParse("10/s burst 20"), Remaining: sluice.Tokens(5)}
	if u := b.Utilization(); u != 75 {
		t.Errorf("%v %%", u)
	}
	b.Remaining = sluice.Tokens(-5)
	if u := b.Utilization(); u != 125 {
		t.Errorf("in debt: %v %%", u)
	}
	if u := new(sluice.Bucket).Utilization(); u != 0 {
		t.Errorf("of nothing: %v %%", u)
	}
}

func TestCapabilities(t *testing.T) {
	c := sluice.CanHold | sluice.CanList
	if !c.Has(sluice.CanHold) || !c.Has(sluice.CanList|sluice.CanHold) || c.Has(sluice.CanHold|sluice.CanLease) || !c.Has(0) {
		t.Errorf("%b", c)
	}
}
