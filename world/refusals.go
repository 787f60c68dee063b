package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// refusals checks that a refusal says never exactly when the cost exceeds the
// capacity of a limit that applies, and that concurrency says when a place is
// free at the latest apart from its guess, which is short. Whoever gives up
// waiting is told what the store says after that, and not what it was told while
// it waited. What is answered without the store may say something else.
func (w *World) refusals() (failures []Failure) {
	effects := w.byCaller()
	for _, t := range w.told {
		_, refused := errors.AsType[*sluice.RefusedError](t.Err)
		if t.Take == nil || t.Err != nil && !refused || t.Lost || t.Decision.Allowed || t.degraded() {
			continue
		}
		if gaveUp := errors.Is(t.Err, context.DeadlineExceeded) || errors.Is(t.Err, context.Canceled); gaveUp && !w.live &&
			!slices.ContainsFunc(effects[t.Caller], func(e *Effect) bool { return e.At >= t.Ends && e.Decision.Time.Equal(t.Decision.Time) }) {
			failures = append(failures, Failure{"refusals", t.Return.At, fmt.Sprintf("caller %d gave up and is told to come back in %s, which is of before", t.Caller>>16-1, t.Decision.RetryAfter)})
		}
		never := false
		for i := range t.Take.Demands {
			dm, r := &t.Take.Demands[i], &t.Decision.Results[i]
			cost := dm.Charge().Thousandths()
			if t.Take.UpTo {
				cost = min(cost, sluice.Token)
			}
			never = never || !dm.Shadow && cost > dm.Limit.Capacity().Thousandths()
			if dm.Limit.Algorithm == sluice.Concurrency && r.RetryAfter != sluice.Never &&
				(r.RetryAfter > sluice.ConcurrencyRetry || r.LatestAfter < r.RetryAfter) {
				failures = append(failures, Failure{"refusals", t.Return.At, fmt.Sprintf("a place may be free in %s, and is in %s at the latest", r.RetryAfter, r.LatestAfter)})
			}
		}
		if told := t.Decision.RetryAfter == sluice.Never; told != never {
			failures = append(failures, Failure{"refusals", t.Return.At, fmt.Sprintf(
				"caller %d is told to come back in %s, but never is %v: %s by %s", t.Caller>>16-1, t.Decision.RetryAfter, never, t.what(), t.Decision.Source)})
		}
	}
	return failures
}

const (
	// soonest is the tolerance of "sooner would not have passed": the time of
	// a store is in microseconds, and a caller enters it a few nanoseconds
	// after it is asked.
	soonest = 10 * time.Microsecond

	// breather is the tolerance of a limit whose tokens are held ahead: a node
	// leaves a drained bucket alone for up to as long.
	breather = 25 * time.Millisecond

	// longEnough is the longest wait that is worth playing.
	longEnough = 8 * time.Second
)

// comeBackAlone checks that whoever comes back at the time told passes if
// nobody else does anything meanwhile, and would not have passed sooner: at
// the end of a world, when nobody else asks and messages take no time.
//
// Each bucket is emptied. A caller is refused, and in some worlds another with a
// greater cost after it, or one that wants of a second bucket as well, which is
// empty, too; the last of them comes back. Or the caller waits, is overtaken and
// gives up. Or somebody of the same node stands in line before it. Sooner is not checked
// where tokens were held, because they may be returned at any moment. While a
// bucket stands still because the store's clock stepped back, the deny cache
// estimates by refill, for a second at most; what is told after that is checked.
func (w *World) comeBackAlone() {
	w.quiet.Store(true)
	there := dice(w.plan.Seed, hash("there")).IntN(w.plan.Nodes)
	if w.plan.Seed%4 != 0 { // mostly the other nodes are closed, which costs less to play
		for slot := range w.nodes {
			if slot != there {
				w.stop(slot)
			}
		}
	}
	time.Sleep(1100 * time.Millisecond) // until no node remembers a refusal of before
	for i := range w.plan.Buckets {
		r := dice(w.plan.Seed, hash("alone"), uint64(i))
		b := &w.plan.Buckets[i]
		if oneIn(r, 2) {
			continue // not all of them in every world
		}
		a := &alone{world: w, bucket: b, slot: there, op: &Op{N: 1000 + i, Kind: OpTake}}
		capacity := b.at(w.planNow()).Capacity().Thousandths()
		if b.Limit.Algorithm == sluice.Concurrency {
			a.placesFree(capacity)
			continue
		}
		third := max(capacity/3/sluice.Token, 1) * sluice.Token
		first := pick(r, sluice.Token, third, min(third*2, capacity))
		t := a.emptied(third, first)
		if t == nil || t.Err != nil {
			continue
		}
		cost := first
		if oneIn(r, 4) {
			if t = a.overtaken(r, t, cost); t == nil || t.Err == nil {
				continue
			}
		} else if oneIn(r, 4) {
			if t = a.behind(r, t, cost); t == nil || t.Err != nil || t.Decision.Allowed {
				w.callers.Wait()
				continue
			}
		} else if oneIn(r, 3) {
			if t = a.withAnother(r, i, cost); t == nil || t.Err != nil || t.Decision.Allowed {
				continue
			}
		} else if oneIn(r, 2) {
			time.Sleep(between(r, time.Microsecond, max(min(t.Decision.RetryAfter/2, time.Second), time.Millisecond)))
			cost = min(first+pick(r, sluice.Token, third), capacity)
			if t = a.take(cost, false); t == nil || t.Err != nil || t.Decision.Allowed {
				continue
			}
		}
		a.back(t, cost)
		w.callers.Wait() // who is in line
	}
}

// alone is the only caller in the world.
type alone struct {
	world  *World
	bucket *Bucket
	also   *Bucket // wanted one token of along with it, or nil
	slot   int
	op     *Op
	asked  int
	late   time.Duration // for the wake-up of who is before it in line
}

// withAnother empties another bucket than the one numbered i, and takes of both.
func (a *alone) withAnother(r *rand.Rand, i int, cost int64) *Told {
	w := a.world
	also := &w.plan.Buckets[(i+1+r.IntN(len(w.plan.Buckets)))%len(w.plan.Buckets)]
	if also.Key == a.bucket.Key || also.Limit.Algorithm == sluice.Concurrency {
		return nil
	}
	b := &alone{world: w, bucket: also, slot: a.slot, op: &Op{N: 2000 + i, Kind: OpTake}}
	if t := b.emptied(max(also.at(w.planNow()).Capacity().Thousandths()/3/sluice.Token, 1)*sluice.Token, sluice.Token); t == nil || t.Err != nil {
		return nil
	}
	a.also = also
	return a.take(cost, false)
}

// overtaken lets two callers wait for what t was refused, and returns what the
// first is told. It gives up soon after the second, whom it lets pass, is served.
func (a *alone) overtaken(r *rand.Rand, t *Told, cost int64) *Told {
	w, wait := a.world, t.Decision.RetryAfter
	if wait > longEnough/2 {
		return nil
	}
	wait += between(r, time.Millisecond, 300*time.Millisecond)
	batch, interactive := a.asks(cost), a.asks(cost)
	batch.Take.Priority, interactive.Take.Priority = sluice.Batch, sluice.Interactive
	w.callers.Go(func() { a.stand(batch, wait) })
	time.Sleep(time.Millisecond)
	w.callers.Go(func() { a.stand(interactive, 2*wait) })
	w.callers.Wait()
	if batch.Node == nil || batch.Return.At < interactive.Return.At {
		return nil // what it was told is of before
	}
	return batch
}

// behind lets somebody wait for what t was refused, and returns what a caller of
// the same node is told who comes while that one stands in line. That is exact for
// token buckets.
func (a *alone) behind(r *rand.Rand, t *Told, cost int64) *Told {
	w, wait := a.world, t.Decision.RetryAfter
	if wait > longEnough/2 || a.bucket.Limit.Algorithm != sluice.TokenBucket {
		return nil
	}
	before := a.asks(cost)
	w.callers.Go(func() { a.stand(before, 2*wait+time.Second) })
	time.Sleep(between(r, time.Millisecond, max(min(wait/2, time.Second), 2*time.Millisecond)))
	a.late = soonest
	return a.take(cost, false)
}

// stand lets a caller wait in line.
func (a *alone) stand(t *Told, patience time.Duration) {
	t.Waited, t.Ends = true, a.world.elapsed()+patience
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a.world.ask(ctx, t, a.slot, func(n *node, ctx context.Context) (sluice.Decision, error) { return n.limiter.Wait(ctx, *t.Take) })
}

// asks is a caller that is about to ask.
func (a *alone) asks(cost int64) *Told {
	a.asked++
	now := a.world.planNow()
	t := &Told{Op: a.op, Caller: a.op.caller(a.asked), Take: &sluice.Take{Demands: []sluice.Demand{
		{Key: a.bucket.Key, Limit: a.bucket.at(now), Cost: sluice.Thousandths(cost), Critical: a.bucket.Critical}}}}
	if a.also != nil {
		t.Take.Demands = append(t.Take.Demands, sluice.Demand{Key: a.also.Key, Limit: a.also.at(now), Cost: sluice.Tokens(1), Critical: a.also.Critical})
	}
	return t
}

func (a *alone) take(cost int64, peek bool) *Told {
	w, t := a.world, a.asks(cost)
	t.Take.Peek = peek
	if !w.ask(context.Background(), t, a.slot, func(n *node, ctx context.Context) (d sluice.Decision, err error) {
		err = n.limiter.Decide(ctx, t.Take, &d)
		return d, err
	}) {
		return nil
	}
	return t
}

// emptied takes until a cost is refused.
func (a *alone) emptied(by, cost int64) *Told {
	for range 8 {
		if t := a.take(by, false); t == nil || t.Err != nil || !t.Decision.Allowed {
			break
		}
		time.Sleep(100 * time.Microsecond)
	}
	for range 40 {
		t := a.take(cost, false)
		if t == nil || t.Err != nil || !t.Decision.Allowed {
			return t
		}
		time.Sleep(100 * time.Microsecond)
	}
	return nil
}

// back comes back at the time told.
func (a *alone) back(t *Told, cost int64) {
	if t.Decision.Source == sluice.FromDenyCache && a.world.clocks.stood() > 0 {
		time.Sleep(1100 * time.Millisecond) // until the node asks again
		if t = a.take(cost, false); t == nil || t.Err != nil || t.Decision.Allowed {
			return
		}
	}
	w, wait := a.world, t.Decision.RetryAfter
	if wait > longEnough || blocked(t) {
		return
	}
	early := soonest
	if t.Decision.Source == sluice.FromDenyCache {
		early = 2 * usual // what the answer took that it repeats
	}
	held := false // what is held may be returned meanwhile
	for i := range t.Take.Demands {
		dm := &t.Take.Demands[i]
		if holdAhead(dm.Limit) {
			early = breather
		}
		held = held || t.Decision.Results[i].Held || w.heldOf(dm.Key)
	}
	if wait > early {
		time.Sleep(wait - early)
		if p := a.take(cost, true); !held && p != nil && p.Err == nil && p.Decision.Allowed {
			w.fail("refusals", "%s of %s, %s, passes %s before the %s that were told by %s", sluice.Thousandths(cost), a.bucket.Key, t.Take.Demands[0].Limit, early, wait, t.Decision.Source)
		}
		wait = early
	}
	time.Sleep(wait + a.late)
	if b := a.take(cost, false); b != nil && b.Err == nil && !b.Decision.Allowed && !blocked(b) {
		w.fail("refusals", "%s of %s, %s, does not pass after the %s that were told by %s: by %s in %s", sluice.Thousandths(cost), a.bucket.Key,
			t.Take.Demands[0].Limit, t.Decision.RetryAfter, t.Decision.Source, b.Decision.Source, b.Decision.RetryAfter)
	}
}

// blocked reports whether only somebody before it in line is in the way of a
// take. Times are told as if that one were served in time. If its caller has
// gone without a word, its ticket has yet to lapse.
func blocked(t *Told) bool {
	for i := range t.Take.Demands {
		if r := &t.Decision.Results[i]; r.Held && t.Take.Demands[i].Charge().Thousandths() <= r.Free.Thousandths() {
			return true
		}
	}
	return false
}

// placesFree comes back when a place is free at the latest.
func (a *alone) placesFree(places int64) {
	w := a.world
	lease := func(n int) *Told {
		a.asked++
		t := &Told{Op: a.op, Caller: a.op.caller(a.asked), Take: &sluice.Take{
			Lease: true, ID: fmt.Sprintf("alone-%d-%d", a.op.N, n), Keep: 3 * time.Second,
			Demands: []sluice.Demand{{Key: a.bucket.Key, Limit: a.bucket.Limit, Cost: sluice.Tokens(1)}}}}
		if !w.ask(context.Background(), t, a.slot, func(n *node, ctx context.Context) (d sluice.Decision, err error) {
			err = n.limiter.Decide(ctx, t.Take, &d)
			return d, err
		}) || t.Err != nil {
			return nil
		}
		return t
	}
	n := 0
	for ; n < int(places/sluice.Token)+1; n++ {
		t := lease(n)
		if t == nil {
			return
		}
		if t.Decision.Allowed {
			continue
		}
		latest := t.Decision.Results[0].LatestAfter
		if latest > longEnough {
			return
		}
		time.Sleep(latest)
		if t := lease(n + 1); t != nil && !t.Decision.Allowed {
			w.fail("refusals", "no place of %s is free after %s, which was told to be the latest", a.bucket.Key, latest)
		}
		return
	}
	w.fail("refusals", "%d leases of %s fit", n, a.bucket.Limit)
}

// heldOf reports whether anybody holds tokens of a bucket, or has left a
// ticket in it that has yet to lapse.
func (w *World) heldOf(k sluice.Key) bool {
	for _, b := range w.store.list() {
		if b.Key == k {
			return b.Held.Thousandths() > 0 || b.Tickets > 0
		}
	}
	return false
}
