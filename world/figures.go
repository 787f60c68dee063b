package world

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// figures checks the figures in answers to takes.
//
//   - What is told to remain is at most the capacity, and below 0 only by debt.
//   - Held is not used: it is at least the capacity less all that was ever
//     consumed, whoever holds how much. What was held and not returned in time
//     counts as consumed, because its node may have spent it.
//   - Without faults nothing that is held lapses, because then it would count as
//     used: it is spent, or comes back.
//   - What the store can give is at most what remains.
//   - A bucket in which something is used is full again later, not now; a
//     window is at its end.
//   - An answer without the store says of no limit how much remains, because it
//     is not known.
//
// Tolerance: what is used of a limit that is lowered may be more than it now
// allows, which is a debt. After the store forgot what nodes hold, or its clock
// stepped past the end of their holds, it may give it to others, which looks
// like one.
func (w *World) figures() (failures []Failure) {
	fail := func(t *Told, i int, format string, args ...any) {
		failures = append(failures, Failure{"figures", t.Return.At, fmt.Sprintf("caller %d, %s by %s: ",
			t.Caller>>16-1, t.Take.Demands[i].Key, t.Decision.Source) + fmt.Sprintf(format, args...)})
	}
	if len(w.plan.Faults) == 0 {
		for k, h := range w.store.holds {
			if !h.closed && !h.brief {
				failures = append(failures, Failure{"figures", w.ended.At, fmt.Sprintf("%s of %s that a node held have lapsed", sluice.Thousandths(h.amount), k.key)})
			}
		}
	}
	consumed := w.consumption()
	for _, t := range w.told {
		if t.Take == nil || t.Err != nil || t.Lost || t.Decision.Repeated {
			continue
		}
		for i := range t.Decision.Results {
			r, dm := &t.Decision.Results[i], &t.Take.Demands[i]
			capacity := dm.Limit.Capacity().Thousandths()
			if t.degraded() {
				// Of several, one may be in hand, which is known.
				if !r.Unknown && (len(t.Take.Demands) == 1 || !holdAhead(dm.Limit)) {
					fail(t, i, "%s remain, which nobody can know", r.Remaining)
				}
				continue
			}
			if r.Unknown {
				continue
			}
			least := capacity - consumed.until(t.Return, dm.Key)
			if w.live { // what lapsed is not known
				least = min(least, 0)
			}
			if !w.indebted(dm.Key) && w.bucket(dm.Key).Other.Amount.Thousandths() == 0 && !w.lostTrack(t.Return.At) {
				least = max(least, 0)
			}
			switch {
			case r.Remaining.Thousandths() > capacity:
				fail(t, i, "%s of %s remain", r.Remaining, sluice.Thousandths(capacity))
			case r.Remaining.Thousandths() < least:
				fail(t, i, "%s of %s remain, but %s at least are not used", r.Remaining, sluice.Thousandths(capacity), sluice.Thousandths(least))
			case r.Free.Thousandths() > r.Remaining.Thousandths():
				fail(t, i, "%s of %s can be given", r.Free, r.Remaining)
			case r.Remaining.Thousandths() < capacity && r.ResetAfter <= 0:
				fail(t, i, "%s of %s remain, and it is full again in %s", r.Remaining, sluice.Thousandths(capacity), r.ResetAfter)
			case dm.Limit.Algorithm == sluice.FixedWindow && dm.Limit.Period > 0 && !w.has(Forward) && !w.has(Back) && r.ResetAfter > dm.Limit.Period:
				fail(t, i, "the window of %s ends in %s", dm.Limit.Period, r.ResetAfter)
			}
		}
	}
	if w.live {
		return failures
	}
	for _, b := range w.store.list() {
		if b.Remaining.Thousandths() > b.Limit.Capacity().Thousandths() || b.Held.Thousandths() < 0 || b.Consumed.Thousandths() < 0 {
			failures = append(failures, Failure{"figures", w.elapsed(), fmt.Sprintf("the store shows of %s that %s remain, %s are held and %s were consumed",
				b.Key, b.Remaining, b.Held, b.Consumed)})
		}
	}
	return failures
}

// consumption is how much was consumed of each bucket until a moment, at most.
type consumption struct {
	world *World
	asked []*Told // by when they asked
	sums  map[sluice.Key]int64

	effects, told int // how many are counted
}

func (w *World) consumption() *consumption {
	c := &consumption{world: w, asked: slices.Clone(w.told), sums: map[sluice.Key]int64{}}
	slices.SortFunc(c.asked, func(a, b *Told) int { return cmp.Compare(a.Call.At, b.Call.At) })
	return c
}

// until counts up to a moment, which must not be before the last.
func (c *consumption) until(at Stamp, k sluice.Key) int64 {
	effects := c.world.store.effects
	for ; c.effects < len(effects) && effects[c.effects].At <= at.At; c.effects++ {
		e := effects[c.effects]
		if e.Err == nil && !e.Decision.Repeated {
			for i := range e.Decision.Results {
				c.sums[e.Decision.Demands[i].Key] += max(e.Decision.Results[i].Consumed.Thousandths(), 0)
			}
		}
	}
	// What is spent of tokens in hand is told by nobody but those who did. A
	// node may have spent them for a caller that it could not tell any more.
	for ; c.told < len(c.asked) && c.asked[c.told].Call.At <= at.At; c.told++ {
		t := c.asked[c.told]
		if t.Take == nil {
			continue
		}
		for i := range t.Take.Demands {
			if t.Err == nil && !t.degraded() {
				c.sums[t.Take.Demands[i].Key] += t.Decision.Results[i].Consumed.Thousandths()
			} else {
				c.sums[t.Take.Demands[i].Key] += t.Take.Demands[i].Charge().Thousandths()
			}
		}
	}
	return c.sums[k] + c.world.store.lapsed(k, at)
}

// lostTrack reports whether the store may have lost track of what nodes hold by
// then.
func (w *World) lostTrack(by time.Duration) bool {
	for f, at := range w.begun {
		if at <= by && (f.Kind == Forget || f.Kind == Rollback || f.Kind == Forward) {
			return true
		}
	}
	return false
}

// indebted reports whether somebody may have consumed of a bucket without
// asking.
func (w *World) indebted(k sluice.Key) bool {
	for i := range w.plan.Ops {
		op := &w.plan.Ops[i]
		if w.plan.Buckets[op.Wants[0].Bucket].Key != k {
			continue
		}
		if op.Kind == OpDebt {
			return true
		}
		for _, s := range op.Steps {
			if s.Cost > 0 { // it may be more than the cost before
				return true
			}
		}
	}
	return false
}
