package main

import (
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/storetest"
)

// outageFigures are what callers saw of an outage.
type outageFigures struct {
	Answers, Errors, Banned int
	Error                   string // the first

	// Early are calls begun within 10 s of the outage's start, and Refused
	// those of them that were refused, by the name of callers within their
	// limits.
	Early, Refused map[string]int

	Over  float64 // tokens above the limit that the store and held tokens let pass, at most
	Extra float64 // tokens above the limit with local quotas, at most
	Quota float64 // tokens above a local quota on one node, at most

	During, After time.Duration // 99th percentile of calls begun in the outage, and in the 10 s after it
	Back          time.Duration // from the end of the outage to the last answer without the store, on any node
}

// figures sums the answers up. The outage was from one time to another.
func (c *crowd) figures(from, to time.Duration) outageFigures {
	f := outageFigures{Early: map[string]int{}, Refused: map[string]int{}}
	type bucket struct{ kind, caller, node int }
	store, all, local := map[bucket]*storetest.History{}, map[bucket]*storetest.History{}, map[bucket]*storetest.History{}
	note := func(of map[bucket]*storetest.History, b bucket, a *answer, cost int64) {
		if of[b] == nil {
			of[b] = &storetest.History{}
		}
		of[b].Add(a.begun.Microseconds(), a.ended.Microseconds(), cost)
	}
	var during, after []time.Duration
	for i := range c.answers {
		a := &c.answers[i]
		who := &outageCallers[a.kind]
		f.Answers++
		if a.outcome == inError {
			if f.Errors == 0 {
				f.Error = a.err.Error()
			}
			f.Errors++
			continue
		}
		if a.banned && who.within {
			f.Banned++
		}
		if who.within && a.begun >= from && a.begun < from+10*time.Second {
			f.Early[who.name]++
			if !a.allowed {
				f.Refused[who.name]++
			}
		}
		if a.begun >= from && a.begun < to {
			during = append(during, a.ended-a.begun)
		} else if a.begun >= to && a.begun < to+10*time.Second {
			after = append(after, a.ended-a.begun)
		}
		if a.outcome == localPassed || a.outcome == localRefused || a.outcome == byGuess {
			f.Back = max(f.Back, a.ended-to)
		}
		if who.name == web || !a.allowed {
			continue
		}
		b := bucket{a.kind, a.caller, 0}
		note(all, b, a, sluice.Token)
		if a.outcome == byStore || a.outcome == byHeld {
			note(store, b, a, sluice.Token)
		} else {
			note(local, bucket{a.kind, a.caller, a.node}, a, sluice.Token)
		}
	}
	limit := func(b bucket) sluice.Limit { return outageCallers[b.kind].limit }
	quota := func(b bucket) sluice.Limit { return outageCallers[b.kind].local() }
	worst := func(of map[bucket]*storetest.History, rule func(bucket) sluice.Limit) (over float64) {
		for b, h := range of {
			r, err := h.Report(rule(b))
			if err != nil {
				c.t.Fatal(err)
			}
			over = max(over, float64(r.Worst.Net-r.Worst.Bound)/1000)
		}
		return over
	}
	f.Over, f.Extra, f.Quota = worst(store, limit), worst(all, limit), worst(local, quota)
	f.During, f.After = percentile(during), percentile(after)
	return f
}

// local returns what one of the callers may have of a node without the store: the
// quota of the tier, and what the limit lets pass in a short outage, of which no
// more than all comes back within 5 minutes. A node may not have heard of the others.
func (who *callers) local() sluice.Limit {
	q := failover.DefaultQuotas()[who.tier]
	quota := sluice.Token*q.Limit.Amount.Thousandths()/max(q.Factor, sluice.Token) + 1
	bridged := who.limit.Amount.Thousandths() * int64(q.Bridge) / int64(who.limit.Period)
	return sluice.Limit{Amount: sluice.Thousandths(quota + bridged/5), Period: time.Minute, Burst: sluice.Thousandths(quota + bridged)}
}

// percentile returns the 99th.
func percentile(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}
