package world

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storetest"
)

// truth is the store: what really happens, in one order, at one time each. The
// checks read effects and forgot once all nodes have stopped.
type truth struct {
	world *World

	mu      sync.Mutex // guards all below
	model   *storetest.Model
	replica *storetest.Model // what is left after a rollback; nil if there is none to come
	lives   int              // times the store has forgotten something
	forgot  map[*Fault]Stamp
	holds   map[holdKey]*held
	asked   map[caller]*sluice.Take // last
	leads   map[holdKey]caller      // who of a node has asked last with a ticket, by node and bucket
	effects []*Effect

	reported []figure // after nodes have told what they spent
}

// Effect is something that happened in the store.
type Effect struct {
	Stamp
	Until  Stamp // it may have happened later, until then
	Caller caller
	Slot   int
	Life   int // of the store

	// One of these is set.
	Take     *sluice.Take
	Changes  []sluice.Demand
	Settled  *sluice.Settlement
	Reset    []sluice.Key
	Returned []sluice.HoldReturn // holds and tickets

	Decision sluice.Decision
	Err      error
}

func newTruth(w *World) *truth {
	t := &truth{world: w, model: storetest.NewModel(w.clocks.now), forgot: map[*Fault]Stamp{}, holds: map[holdKey]*held{}, asked: map[caller]*sluice.Take{}, leads: map[holdKey]caller{}}
	for i := range w.plan.Faults {
		if w.plan.Faults[i].Kind == Rollback {
			t.replica = storetest.NewModel(w.clocks.now)
			break
		}
	}
	return t
}

// do lets something happen to the store, and, if that will not be lost, to
// what a rollback leaves.
func (t *truth) do(what func(m *storetest.Model) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.replica != nil && !t.doomed() {
		what(t.replica) //nolint:errcheck // the store's own answer counts
	}
	return what(t.model)
}

// doomed reports whether what happens now is lost in the next rollback. It reads
// the plan alone.
func (t *truth) doomed() bool {
	now := t.world.planNow()
	for i := range t.world.plan.Faults {
		if f := &t.world.plan.Faults[i]; f.Kind == Rollback {
			return now >= f.At-f.Size
		}
	}
	return false
}

// forget replaces the store by an empty one, or by what a rollback leaves.
func (t *truth) forget(f *Fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lives++
	t.forgot[f] = t.world.clocks.stamp()
	if f.Kind == Rollback && t.replica != nil {
		t.model, t.replica = t.replica, nil
		return
	}
	t.model = storetest.NewModel(t.world.clocks.now)
}

// remember keeps an effect for the checks.
func (t *truth) remember(e *Effect) {
	e.Stamp = t.world.clocks.stamp()
	e.Until = e.Stamp
	t.mu.Lock()
	defer t.mu.Unlock()
	e.Life = t.lives
	if e.Take != nil {
		t.asked[e.Caller] = e.Take
		if id := e.Take.Ticket.ID; id != (sluice.HoldID{}) {
			for i := range e.Take.Demands {
				t.leads[holdKey{e.Take.Demands[i].Key, sluice.HoldID{Node: id.Node}}] = e.Caller
			}
		}
	}
	t.effects = append(t.effects, e)
}

func (t *truth) take(take *sluice.Take, from caller, slot int) *Effect {
	e := &Effect{Caller: from, Slot: slot, Take: take}
	e.Err = t.do(func(m *storetest.Model) error { return m.Take(context.Background(), take, &e.Decision) })
	t.remember(e)
	return e
}

func (t *truth) adjust(changes []sluice.Demand, from caller, slot int) *Effect {
	e := &Effect{Caller: from, Slot: slot, Changes: changes}
	e.Err = t.do(func(m *storetest.Model) error { return m.Adjust(context.Background(), changes, &e.Decision) })
	t.remember(e)
	return e
}

func (t *truth) settle(s *sluice.Settlement, from caller, slot int) *Effect {
	e := &Effect{Caller: from, Slot: slot, Settled: s}
	e.Err = t.do(func(m *storetest.Model) error { return m.Settle(context.Background(), s, &e.Decision) })
	t.remember(e)
	return e
}

func (t *truth) reset(keys []sluice.Key, from caller, slot int) *Effect {
	e := &Effect{Caller: from, Slot: slot, Reset: keys}
	e.Err = t.do(func(m *storetest.Model) error { return m.Reset(context.Background(), keys) })
	t.remember(e)
	return e
}

type holdKey struct {
	key sluice.Key
	id  sluice.HoldID
}

// held is tokens in the hands of a node.
type held struct {
	amount  int64
	expires time.Time
	closed  bool // in time
	brief   bool // it ends with its window, or its node was closed while it was asked for
}

func (t *truth) hold(requests []sluice.HoldRequest, grants []sluice.Grant) error {
	return t.do(func(m *storetest.Model) error {
		if err := m.Hold(context.Background(), requests, grants); err != nil || m != t.model {
			return err
		}
		for i := range requests {
			r, g := &requests[i], &grants[i]
			t.report(r.Key, r.Previous, r.Spent.Thousandths(), g.Remaining.Thousandths(), r.Limit)
			if g.Amount.Thousandths() > 0 {
				t.holds[holdKey{r.Key, r.ID}] = &held{amount: g.Amount.Thousandths(), expires: g.Expires, brief: g.Expires.Sub(g.Now) < r.TTL || t.world.at(int(r.ID.Node-1)/1000) == nil}
			}
		}
		return nil
	})
}

func (t *truth) giveBack(returns []sluice.HoldReturn, slot int) error {
	defer t.remember(&Effect{Slot: slot, Returned: returns})
	return t.do(func(m *storetest.Model) error {
		err := m.Return(context.Background(), returns)
		if m != t.model {
			return err
		}
		for i := range returns {
			r := &returns[i]
			var left sluice.Decision
			peek := sluice.Take{Demands: []sluice.Demand{{Key: r.Key, Limit: r.Limit}}, Peek: true}
			if r.Limit.Amount.Thousandths() > 0 && m.Take(context.Background(), &peek, &left) == nil { // tickets have none
				t.report(r.Key, r.ID, r.Spent.Thousandths(), left.Results[0].Remaining.Thousandths(), r.Limit)
			}
		}
		return err
	})
}

// close ends a hold, and reports whether it did in time. The caller holds the
// mutex.
func (t *truth) close(k holdKey, now time.Time) bool {
	h := t.holds[k]
	if h == nil || h.closed || !now.Before(h.expires) {
		return false
	}
	h.closed = true
	return true
}

// lapsed is all that was held of a bucket until a moment and not returned in
// time. It counts as used though nobody may have spent it.
func (t *truth) lapsed(k sluice.Key, at Stamp) (sum int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for hk, h := range t.holds {
		if hk.key == k && !h.closed && h.expires.UnixMicro() <= at.Latest {
			sum += h.amount
		}
	}
	return sum
}

// list is what the store shows of all buckets.
func (t *truth) list() []sluice.Bucket {
	t.mu.Lock()
	defer t.mu.Unlock()
	page, err := t.model.List(context.Background(), sluice.Query{Namespace: "w", Max: 1000})
	if err != nil {
		panic(err) // it cannot fail
	}
	return page.Buckets
}

// freed are the keys of the buckets in which an effect made room other than by
// passing, as a [sluice.Watcher] tells.
func (e *Effect) freed() []sluice.Key {
	if e.Err != nil {
		return nil
	}
	keys := e.Reset
	for i := range e.Decision.Results {
		r, dm := &e.Decision.Results[i], &e.Decision.Demands[i]
		room := false
		switch {
		case e.Take != nil: // a ticket was taken out
			room = !e.Decision.Allowed && e.Take.Ticket.ID != (sluice.HoldID{}) && (r.Fits || e.Decision.RetryAfter == sluice.Never)
		case e.Settled != nil:
			ends := e.Settled.Action == sluice.Commit || e.Settled.Action == sluice.Release
			room = r.Returned.Thousandths() > 0 || ends && dm.Limit.Algorithm == sluice.Concurrency
		default:
			room = r.Returned.Thousandths() > 0
		}
		if room {
			keys = append(keys, dm.Key)
		}
	}
	return keys
}
