package sluice

import (
	"fmt"
	"math"
	"time"
)

// Never is the RetryAfter of a cost that can never pass, because it is
// greater than the limit's capacity.
const Never = time.Duration(math.MaxInt64)

// Source is who decided.
type Source uint8

const (
	// FromStore decisions are exact.
	FromStore Source = iota
	// FromHeld decisions spent tokens that this node held ahead of need.
	FromHeld
	// FromDenyCache decisions repeat a refusal that still stands.
	FromDenyCache
	// Degraded decisions used local quotas because the store is away.
	Degraded
	// Unknown decisions followed OnUnavailable after the store gave no
	// answer; the take may or may not have been counted.
	Unknown
)

func (s Source) String() string {
	return name(s, "store", "held", "denyCache", "degraded", "unknown")
}

// Result is what one demand's limit said. Amounts and times are as of after
// the take.
type Result struct {
	// Fits reports whether this limit alone had room for the cost.
	Fits bool

	// Held reports that the cost would fit except for what nodes hold ahead of need
	// and for what callers want that are before it in line. RetryAfter is then
	// when it passes at the latest, even if all that is held is spent: of a
	// fixed window that is its end. It passes sooner if some is returned,
	// which is most likely within the life of a hold, and certain at no time:
	// what a node that died held counts as spent.
	Held bool

	// Unknown says that Remaining, Free and ResetAfter are not known: the
	// limit was not asked, or nobody could be.
	Unknown bool

	// Consumed is by how much net consumption changed: what was taken, or,
	// negative, what was refunded, whatever refill did in between.
	Consumed Amount

	// Returned is how much of a refund came back into the bucket: less than
	// what was refunded if refill, or the end of a window, was faster.
	Returned Amount

	// Remaining is what is not used; negative is a debt. What nodes hold
	// ahead of need is not used.
	Remaining Amount

	// Free is how much of Remaining the store itself can give: Remaining less
	// what nodes hold.
	Free Amount

	// RetryAfter is when this cost could pass if nobody else takes anything:
	// 0 if it fits, or [Never]. For concurrency, where a place may be freed
	// at any moment, it is a guess: [ConcurrencyRetry] at most.
	RetryAfter time.Duration

	// LatestAfter is when this cost can pass at the latest if nobody else
	// takes anything: later than RetryAfter only for concurrency.
	LatestAfter time.Duration

	// ResetAfter is when nothing is used any more if nobody takes anything.
	// What nodes hold ahead of need does not count.
	ResetAfter time.Duration
}

// ConcurrencyRetry is the longest RetryAfter of a concurrency limit. Nobody
// knows when the next place is freed, so it is a guess: a second, or less if a
// lease expires before.
const ConcurrencyRetry = time.Second

// Decision is the answer to a take. Demands and Results go together by index.
// A Decision can be used again: stores reuse the memory of its Results.
type Decision struct {
	Allowed bool

	// Granted is what was consumed for the first demand that is not a
	// shadow: less than the cost only for a take up to an amount.
	Granted Amount

	// RetryAfter is when the whole take could pass: 0 if allowed, [Never],
	// or the longest wait of the limits that refused.
	RetryAfter time.Duration

	// Decider is the index of the demand that decided: of those that
	// refused, the one to wait longest for; else the one with the smallest
	// share of its capacity left.
	Decider int

	Source   Source
	Repeated bool   // an earlier take with this ID got this answer
	ID       string // the request or lease id
	Time     time.Time
	Taken    time.Time // when the lease was taken; only a settlement says so
	Demands  []Demand
	Results  []Result
}

// Deciding returns the demand and the result that decided.
func (d *Decision) Deciding() (Demand, Result) {
	return d.Demands[d.Decider], d.Results[d.Decider]
}

// Reason returns why a take was refused without the store being asked: a local
// quota decided, or the limit denies meanwhile. It is "" if the limit itself
// refused, and if the take was allowed.
func (d *Decision) Reason() string {
	if d.Allowed || len(d.Demands) == 0 {
		return ""
	}
	return reason(&d.Demands[d.Decider], d.Source, d.RetryAfter)
}

func reason(dm *Demand, from Source, retry time.Duration) string {
	switch {
	case from < Degraded || retry == Never: // which is known without the store
		return ""
	case dm.OnUnavailable == Deny || dm.Critical:
		return "denied while the store is away"
	}
	return "local quota while the store is away"
}

// Err returns nil if the take was allowed, and a [*RefusedError] if not.
func (d *Decision) Err() error {
	if d.Allowed {
		return nil
	}
	e := &RefusedError{RetryAfter: d.RetryAfter, Source: d.Source}
	if len(d.Demands) > 0 {
		e.Demand = d.Demands[d.Decider]
	}
	return e
}

// RefusedError is a refusal as an error: which limit, from where, and when
// to try again.
type RefusedError struct {
	Demand     Demand
	RetryAfter time.Duration
	Source     Source
}

func (e *RefusedError) Error() string {
	when := fmt.Sprintf("retry in %s", e.RetryAfter)
	if why := reason(&e.Demand, e.Source, e.RetryAfter); why != "" {
		when = why + ", " + when
	}
	if e.RetryAfter == Never {
		when = fmt.Sprintf("a cost of %s can never pass", e.Demand.Charge())
	}
	return fmt.Sprintf("refused by %s (%s, from %s): %s", e.Demand.Key, e.Demand.Limit, e.Demand.Level, when)
}

// Conclude derives the decision's summary from the results, which a store
// has filled in for every demand. It is here so that all stores agree.
func (d *Decision) Conclude() {
	d.RetryAfter, d.Decider, d.Granted = 0, 0, Amount{}
	if len(d.Results) == 1 && !d.Demands[0].Shadow { // nothing to compare
		if r := &d.Results[0]; d.Allowed {
			d.Granted = r.Consumed
		} else {
			r.latest(&d.Demands[0].Limit)
			d.RetryAfter = r.RetryAfter
		}
		return
	}
	for i := range d.Results {
		if r := &d.Results[i]; r.RetryAfter != 0 && r.LatestAfter == 0 {
			r.latest(&d.Demands[i].Limit)
		}
	}
	if d.Allowed {
		d.Decider = d.scarcest()
		for i := range d.Results {
			if !d.Demands[i].Shadow {
				d.Granted = d.Results[i].Consumed
				break
			}
		}
		return
	}
	first := true
	for i := range d.Results {
		r := &d.Results[i]
		if r.Fits || d.Demands[i].Shadow {
			continue
		}
		if first || r.RetryAfter > d.RetryAfter {
			d.RetryAfter, d.Decider, first = r.RetryAfter, i, false
		}
	}
}

// latest tells when the cost fits at the latest from when to come back, where
// a store has only said the former.
func (r *Result) latest(l *Limit) {
	if r.LatestAfter != 0 || r.RetryAfter == 0 {
		return
	}
	r.LatestAfter = r.RetryAfter
	if l.Algorithm == Concurrency && r.RetryAfter != Never {
		r.RetryAfter = min(r.RetryAfter, ConcurrencyRetry)
	}
}

// scarcest is the bucket with the smallest share of its capacity left, the
// first of several. Shadow limits never decide, unless there is no other.
func (d *Decision) scarcest() (best int) {
	left, capacity := d.share(0)
	for i := 1; i < len(d.Results); i++ {
		if d.Demands[i].Shadow && !d.Demands[best].Shadow {
			continue
		}
		l, c := d.share(i)
		if l*capacity < left*c || d.Demands[best].Shadow && !d.Demands[i].Shadow {
			best, left, capacity = i, l, c
		}
	}
	return best
}

func (d *Decision) share(i int) (left, capacity float64) {
	return float64(d.Results[i].Remaining.Thousandths()), float64(d.Demands[i].Limit.Capacity().Thousandths())
}
