package world

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storetest"
)

// bound checks that no more passes than a limit lets pass, in any interval.
//
// What is counted is what callers were told: a take counts from the moment at
// which it was decided to the moment at which its caller acts, which is when
// Wait returns; tokens in hand are spent at the moment of the answer. Of a
// refund only what came back into the bucket is credited. What an adjustment
// adds to a lease counts as far as there was room for it.
//
// Not counted is what is answered without the store, which says so, and what
// is consumed without asking where there was no room. A reset begins a new
// life. Under a limit that changes the looser one applies.
//
// Tolerance: none, except for what nodes hold, a fifth of the capacity each at
// most, after the store forgot acknowledged writes and after its clock
// stepped forward, which are the two documented exceptions.
func (w *World) bound() (failures []Failure) {
	for i := range w.plan.Buckets {
		b := &w.plan.Buckets[i]
		if b.Limit.Algorithm == sluice.Concurrency {
			check := w.inFlight
			if w.live {
				check = w.inFlightTold
			}
			failures = append(failures, check(b)...)
			continue
		}
		for _, l := range w.lives(b) {
			report, err := l.history.Report(l.limit)
			if err != nil {
				failures = append(failures, Failure{"bound", 0, fmt.Sprintf("%s: %v", b.Key, err)})
			} else if over := report.Worst.Net - report.Worst.Bound; over > l.slack {
				failures = append(failures, Failure{"bound", l.when(report.Worst.End), fmt.Sprintf("%s, %s: %s, and %s of it are excused",
					b.Key, l.limit, report.Err(), sluice.Thousandths(l.slack))})
			}
		}
	}
	return failures
}

// life is a bucket from one reset to the next.
type life struct {
	from    time.Duration
	until   time.Duration
	limit   sluice.Limit
	slack   int64
	history storetest.History
	moments map[int64]time.Duration // of the bound's clock
}

func (l *life) when(end int64) time.Duration { return l.moments[end] }

// looser is a limit that lets pass what either of two does.
func (b *Bucket) looser() sluice.Limit {
	l := b.Limit
	if b.Other.Amount.Thousandths() != 0 {
		l.Amount = sluice.Thousandths(max(l.Amount.Thousandths(), b.Other.Amount.Thousandths()))
		if l.Algorithm == sluice.TokenBucket {
			l.Burst = sluice.Thousandths(max(b.Limit.Capacity().Thousandths(), b.Other.Capacity().Thousandths()))
		}
	}
	return l
}

// lives are the lives of a bucket with all that counts in each.
func (w *World) lives(b *Bucket) []*life {
	lives := []*life{{}}
	var cuts []Stamp
	for _, e := range w.store.effects {
		if slices.Contains(e.Reset, b.Key) && e.Err == nil {
			cuts = append(cuts, e.Stamp)
		}
	}
	for i := range w.plan.Faults {
		if f := &w.plan.Faults[i]; f.Kind == Forget || f.Kind == Rollback {
			cuts = append(cuts, w.store.forgot[f])
		}
	}
	slices.SortFunc(cuts, func(a, b Stamp) int { return int(a.At - b.At) })
	for _, c := range cuts {
		lives = append(lives, &life{from: c.At})
	}
	for i, l := range lives {
		if l.until = w.elapsed(); i+1 < len(lives) {
			l.until = lives[i+1].from
		}
		l.limit, l.moments = b.looser(), map[int64]time.Duration{}
		if holdAhead(l.limit) {
			l.slack = w.excused(l) * l.limit.Capacity().Thousandths() / 5
		}
	}
	effects := w.byCaller()
	for _, t := range w.told {
		if !t.allowed() || t.degraded() {
			continue
		}
		for i := range t.Take.Demands {
			if t.Take.Demands[i].Key != b.Key || t.Decision.Results[i].Consumed.Thousandths() == 0 {
				continue
			}
			from := t.Call
			if t.Decision.Source == sluice.FromHeld && !w.live {
				from = t.Return
			}
			for _, e := range effects[t.Caller] { // the last that it can have heard of
				// Not if a part of it was in hand.
				if e.At <= t.Return.At && t.Decision.Source == sluice.FromStore && len(e.Take.Demands) == len(t.Take.Demands) {
					from = e.Stamp
				}
			}
			amount := t.Decision.Results[i].Consumed.Thousandths()
			add(lives, b, from, t.Return, amount)
		}
	}
	w.settled(b, lives)
	return lives
}

// settled counts what was changed afterwards: what came back, and what was
// added while there was room.
func (w *World) settled(b *Bucket, lives []*life) {
	for _, e := range w.store.effects {
		if e.Err != nil || e.Decision.Repeated {
			continue
		}
		for i := range e.Decision.Results {
			r := &e.Decision.Results[i]
			switch {
			case e.Decision.Demands[i].Key != b.Key:
			case r.Returned.Thousandths() > 0:
				add(lives, b, e.Stamp, e.Until, -r.Returned.Thousandths())
			case e.Take == nil && r.Consumed.Thousandths() > 0 && b.Limit.Algorithm == sluice.TokenBucket:
				add(lives, b, e.Stamp, e.Until, min(r.Consumed.Thousandths(), max(r.Free.Thousandths()+r.Consumed.Thousandths(), 0)))
			}
		}
	}
}

// add counts something in the life in which it happened. What may have
// happened in either of two is in none.
func add(lives []*life, b *Bucket, from, to Stamp, amount int64) {
	for i := len(lives) - 1; i >= 0; i-- {
		l := lives[i]
		if from.At < l.from {
			if to.At >= l.from {
				return
			}
			continue
		}
		if b.Limit.Algorithm == sluice.FixedWindow {
			// Windows are those of the store's clock. A bucket may be in one
			// that the clock has left by a step back.
			l.history.Add(min(from.Store, to.Store), max(from.Latest, to.Latest), amount)
		} else {
			l.history.Add(from.Bound, to.Bound, amount)
		}
		at := to.Bound
		if b.Limit.Algorithm == sluice.FixedWindow {
			at = to.Latest
		}
		l.moments[at] = to.At
		return
	}
}

// excused is how often nodes may spend what they hold although the store does
// not know of it any more: once each after it forgot and after each step
// forward of its clock, until its holds are over, through resets that come
// meanwhile.
func (w *World) excused(l *life) int64 {
	times := 0
	for i := range w.plan.Faults {
		f := &w.plan.Faults[i]
		at, soon := w.begun[f], l.from < w.begun[f]+15*time.Second
		switch f.Kind {
		case Forget, Rollback:
			if l.from >= at && soon {
				times++
			}
		case Forward:
			if l.until > at && soon {
				times++
			}
		}
	}
	return int64(times * w.plan.Nodes)
}

// byCaller is the takes of each caller that happened.
func (w *World) byCaller() map[caller][]*Effect {
	effects := map[caller][]*Effect{}
	for _, e := range w.store.effects {
		if e.Take != nil && e.Err == nil {
			effects[e.Caller] = append(effects[e.Caller], e)
		}
	}
	return effects
}

// inFlight checks that no more are in flight than may be: leases that were
// taken, and neither ended nor have expired by the store's clock.
func (w *World) inFlight(b *Bucket) (failures []Failure) {
	type holder struct {
		cost    int64
		expires time.Time
	}
	holders, life := map[string]holder{}, 0
	for _, e := range w.store.effects {
		if e.Life != life {
			clear(holders)
			life = e.Life
		}
		switch {
		case e.Err != nil:
		case slices.Contains(e.Reset, b.Key):
			clear(holders)
		case e.Settled != nil && e.Settled.Action == sluice.Renew:
			// A lease that has expired may be renewed after a step back of the
			// clock, but its place is gone.
			if f, ok := holders[e.Settled.ID]; ok && f.expires.UnixMicro() > e.Latest {
				f.expires = e.Decision.Time.Add(e.Settled.Keep)
				holders[e.Settled.ID] = f
			}
		case e.Settled != nil && e.Settled.Action != sluice.Adjust:
			delete(holders, e.Settled.ID)
		case e.Take != nil && e.Decision.Allowed && !e.Decision.Repeated && !e.Take.Peek:
			i := slices.IndexFunc(e.Take.Demands, func(d sluice.Demand) bool { return d.Key == b.Key })
			if i < 0 || e.Decision.Results[i].Consumed.Thousandths() == 0 {
				continue
			}
			holders[e.Take.ID] = holder{e.Decision.Results[i].Consumed.Thousandths(), e.Decision.Time.Add(e.Take.Keep)}
			sum := int64(0)
			for _, f := range holders {
				if f.expires.UnixMicro() > e.Latest { // it has not been seen to expire
					sum += f.cost
				}
			}
			if sum > b.Limit.Amount.Thousandths() {
				failures = append(failures, Failure{"bound", e.At, fmt.Sprintf("%s: %s in flight under %s", b.Key, sluice.Thousandths(sum), b.Limit)})
			}
		}
	}
	return failures
}
