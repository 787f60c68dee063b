package world

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// caller is who asks: the number of an op and which of its attempts.
type caller uint64

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

func (op *Op) caller(attempt int) caller { return caller(op.N+1)<<16 | caller(attempt) }

// Told is what a caller asked and was told.
type Told struct {
	Op     *Op
	Caller caller
	Node   *node
	Call   Stamp
	Return Stamp

	// One of these is set.
	Take    *sluice.Take
	Changes []sluice.Demand
	Settled *sluice.Settlement

	Waited   bool          // it stood in line
	Ends     time.Duration // when it gives up, if it waits
	Decision sluice.Decision
	Err      error
	Lost     bool // its node died before it could hear
}

// allowed reports whether the caller was let through by the store's tokens: by
// the store itself or with what was held, and not by a quota of an outage.
func (t *Told) allowed() bool {
	return t.Err == nil && !t.Lost && t.Decision.Allowed && !t.Decision.Repeated && t.Take != nil && !t.Take.Peek
}

func (t *Told) degraded() bool {
	return t.Decision.Source == sluice.Degraded || t.Decision.Source == sluice.Unknown
}

// ask lets a caller ask something at a node, and keeps what it is told. Nobody
// can ask a node that is not there.
func (w *World) ask(ctx context.Context, t *Told, slot int, do func(n *node, ctx context.Context) (sluice.Decision, error)) bool {
	ctx = context.WithValue(ctx, callerKey{}, t.Caller)
	if w.awake(ctx, slot) != nil {
		return false
	}
	if t.Node = w.at(slot); t.Node == nil {
		return false
	}
	t.Call = w.clocks.stamp()
	w.noteCall(t)
	if t.Waited {
		w.stand(t, true)
	}
	d, err := do(t.Node, ctx)
	if t.Waited {
		w.stand(t, false)
	}
	t.Return = w.clocks.stamp()
	t.Err = err
	t.Decision = d
	t.Decision.Demands, t.Decision.Results = slices.Clone(d.Demands), slices.Clone(d.Results)
	t.Lost = t.Node.port.dead()
	if t.Waited && len(d.Demands) > 0 { // the limits may have changed
		judged := *t.Take
		judged.Demands = t.Decision.Demands
		t.Take = &judged
	}
	w.noteTold(t)
	w.mu.Lock()
	w.told = append(w.told, t)
	w.mu.Unlock()
	return !t.Lost
}

// stand remembers who waits.
func (w *World) stand(t *Told, waits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if waits {
		w.inLine[t] = true
	} else {
		delete(w.inLine, t)
	}
}

// demands are what an op wants, under the limits of the moment.
func (w *World) demands(op *Op) []sluice.Demand {
	demands := make([]sluice.Demand, len(op.Wants))
	for i, want := range op.Wants {
		b := &w.plan.Buckets[want.Bucket]
		demands[i] = sluice.Demand{
			Key: b.Key, Limit: b.at(w.planNow()), Cost: sluice.Thousandths(want.Cost), Shadow: want.Shadow,
			Critical: b.Critical, OnUnavailable: b.OnUnavailable,
		}
	}
	return demands
}

// perform is what a caller does.
func (w *World) perform(op *Op) {
	switch op.Kind {
	case OpWait, OpQueue, OpRepeat:
		for i := range op.Times {
			w.callers.Go(func() { w.attempt(op, i) })
			w.pauseBetween(op, i)
		}
	case OpDebt:
		w.adjust(op, 0, op.Node, w.demands(op)[:1])
	case OpReset:
		w.reset(op, []sluice.Key{w.plan.Buckets[op.Wants[0].Bucket].Key})
	case OpErase:
		w.erase(op, w.plan.Buckets[op.Wants[0].Bucket].Key.Entity)
	default:
		for i := range op.Times {
			w.attempt(op, i)
			w.pauseBetween(op, i)
		}
	}
}

// pauseBetween keeps two attempts apart.
func (w *World) pauseBetween(op *Op, i int) {
	if op.Times > 1 {
		time.Sleep(op.Gap + between(dice(w.plan.Seed, hash("gap"), uint64(op.caller(i))), 1, time.Millisecond))
	}
}

// attempt is one take of an op, and what becomes of it.
func (w *World) attempt(op *Op, i int) {
	take := &sluice.Take{Demands: w.demands(op), Priority: op.Priority}
	t := &Told{Op: op, Caller: op.caller(i), Take: take}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	slot := op.Node
	switch op.Kind {
	case OpUpTo:
		take.UpTo = true
	case OpPeek:
		take.Peek = true
	case OpLease, OpQueue:
		take.Lease, take.Keep, take.ID = true, op.Keep, op.id(i)
	case OpRepeat:
		take.ID, take.Keep = op.ID, op.Keep
		slot = (op.Node + i) % w.plan.Nodes
	}
	t.Ends = w.elapsed() + op.Patience
	if op.Patience > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, op.Patience)
		defer end()
	}
	if op.GiveUp > 0 {
		t.Ends = w.elapsed() + op.GiveUp
		defer time.AfterFunc(op.GiveUp, cancel).Stop()
	}
	if t.Waited = op.Kind == OpWait || op.Kind == OpQueue || op.Kind == OpRepeat && op.Patience >= time.Second; t.Waited {
		take.Resolve = func(_ context.Context, take *sluice.Take) error {
			take.Demands = w.demands(op)
			return nil
		}
	}
	if !w.ask(ctx, t, slot, func(n *node, ctx context.Context) (d sluice.Decision, err error) {
		switch {
		case op.Kind == OpQueue:
			_, d, err = n.limiter.WaitAcquire(ctx, *take)
			return d, err
		case t.Waited:
			return n.limiter.Wait(ctx, *take)
		}
		err = n.limiter.Decide(ctx, take, &d)
		return d, err
	}) {
		return
	}
	if t.Err != nil || !t.Decision.Allowed {
		return
	}
	switch op.Kind {
	case OpLease, OpQueue:
		w.settleLater(op, i, t)
	case OpRefund:
		s := &op.Steps[0]
		time.Sleep(s.After)
		changes := slices.Clone(take.Demands[:1])
		share := int64(1 + s.After%4)
		changes[0].Cost = sluice.Thousandths(-max(t.Decision.Results[0].Consumed.Thousandths()*share/4, 0))
		if changes[0].Cost.Thousandths() != 0 {
			w.adjust(op, i+1000, s.Node, changes)
		}
	}
}

func (op *Op) id(attempt int) string {
	if attempt == 0 {
		return op.ID
	}
	return op.ID + "-" + string(rune('a'+attempt))
}

// adjust changes consumption without asking.
func (w *World) adjust(op *Op, attempt, slot int, changes []sluice.Demand) {
	t := &Told{Op: op, Caller: op.caller(attempt), Changes: slices.Clone(changes)}
	w.ask(context.Background(), t, slot, func(n *node, ctx context.Context) (sluice.Decision, error) {
		return n.limiter.Adjust(ctx, changes...)
	})
}

// settleLater does what an op planned for its lease, one step after the other.
// It goes on after a commit or a release, and after an outcome that is not
// known: whether the lease is still there is for the store to say.
func (w *World) settleLater(op *Op, i int, taken *Told) {
	for n := range op.Steps {
		s := &op.Steps[n]
		time.Sleep(s.After)
		settle := &sluice.Settlement{ID: taken.Take.ID, Action: s.Action, Keep: s.Keep}
		if s.Cost >= 0 && op.Wants[0].Cost > 0 && taken.Take.Demands[0].Limit.Algorithm != sluice.Concurrency {
			settle.Costs = []sluice.LimitCost{{Limit: taken.Take.Demands[0].Key.Limit, Cost: sluice.Thousandths(s.Cost)}}
		}
		w.settle(op, i*100+n+1, s.Node, settle)
	}
}

func (w *World) settle(op *Op, attempt, slot int, s *sluice.Settlement) {
	t := &Told{Op: op, Caller: op.caller(attempt + 2000), Settled: s}
	w.ask(context.Background(), t, slot, func(n *node, ctx context.Context) (sluice.Decision, error) {
		return n.limiter.Settle(ctx, *s)
	})
}

func (w *World) reset(op *Op, keys []sluice.Key) bool {
	t := &Told{Op: op, Caller: op.caller(0)}
	return w.ask(context.Background(), t, op.Node, func(n *node, ctx context.Context) (sluice.Decision, error) {
		return sluice.Decision{}, n.limiter.Reset(ctx, keys...)
	}) && t.Err == nil
}

func (w *World) erase(op *Op, entity string) {
	var keys []sluice.Key
	for i := range w.plan.Buckets {
		if k := w.plan.Buckets[i].Key; k.Entity == entity {
			keys = append(keys, k)
		}
	}
	if w.reset(op, keys) {
		w.ledger.erase(entity)
	}
}
