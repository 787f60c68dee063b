package world

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/catalog"
	"github.com/sluice-go/sluice/failover"
)

// node is one process, from its limiter down to its port, put together as
// cmd/sluice does it. A slot has one node after the other.
type node struct {
	world     *World
	slot      int
	gen       int
	port      *port
	guarded   *failover.Store
	ahead     *advance.Store
	limiter   *sluice.Limiter
	recorder  *catalog.Recorder
	gates     gates
	closed    time.Duration // when it was; 0 before
	unwritten bool          // it could not write all that it had counted
}

// backoff and the phases are shorter than the defaults, so that worlds are.
// See recovered for what they come to.
var guard = failover.Config{
	Backoff: time.Second, MaxBackoff: 4 * time.Second,
	Testing:     failover.Phase{Successes: 1, For: 200 * time.Millisecond},
	Partial:     failover.Phase{Successes: 1, For: 200 * time.Millisecond},
	Stabilizing: failover.Phase{Successes: 2, For: 300 * time.Millisecond},
	MaxBuckets:  1000,
	Log:         slog.New(slog.DiscardHandler),
}

// start puts a node into a slot. Its components begin at different
// nanoseconds, so that what they do regularly never coincides.
func (w *World) start(slot int) {
	gen := w.gens[slot]
	w.gens[slot]++
	r := dice(w.plan.Seed, hash("start"), uint64(slot), uint64(gen))
	apart := func() { time.Sleep(between(r, 1, time.Millisecond)) }
	n := &node{world: w, slot: slot, gen: gen}
	number := uint64(slot*1000 + gen + 1)
	n.port = &port{world: w, slot: slot, gen: gen, died: make(chan struct{})}

	config := guard
	config.Rand = func() float64 { return dice(w.plan.Seed, number, uint64(w.elapsed())).Float64() }
	apart()
	var err error
	var store sluice.Store = n.port
	if w.live {
		store = w.clients[slot]
	}
	n.guarded, err = failover.New(store, config)
	must(err)
	apart()
	n.ahead, err = advance.New(&stagger{n.guarded, n, "into failover"}, advance.Config{
		MaxBuckets: 10_000, Log: guard.Log, Node: number, Heard: w.hears,
		Clock: func() (time.Time, time.Duration) { return w.nodeClock(slot) },
	})
	must(err)
	apart()
	n.recorder, err = catalog.NewRecorder(catalog.RecorderConfig{Store: &ledgerPort{node: n}, Log: guard.Log, Clock: w.clocks.now})
	must(err)
	n.limiter = sluice.New(&front{stagger{n.ahead, n, "into advance"}}, sluice.WithObserver(&observer{n.recorder, n}), sluice.WithNode(number|1<<32)) // tickets are not holds
	w.put(slot, n)
	w.note(n.port, "starts")
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// kill ends a node at once: nothing of it is sent or answered any more. Its
// goroutines are cleared away, which nobody can notice.
func (w *World) kill(slot int) {
	n := w.put(slot, nil)
	if n == nil {
		return
	}
	w.note(n.port, "is killed")
	close(n.port.died)
	w.messages.Go(n.clear)
}

// stop ends a node as a signal does: it returns what it holds and writes down
// what was used.
func (w *World) stop(slot int) {
	n := w.put(slot, nil)
	if n == nil {
		return
	}
	w.note(n.port, "is closed")
	w.mu.Lock()
	n.closed = w.elapsed()
	w.mu.Unlock()
	n.clear()
}

func (n *node) clear() {
	// As cmd/sluice does: the last opened first.
	if err := n.recorder.Close(); err != nil {
		n.unwritten = true
		n.world.note(n.port, "usage is lost")
	}
	if err := n.ahead.Close(); err != nil {
		n.world.note(n.port, "holds are not returned")
	}
}

// observer is the recorder, and writes what it is told into the history. It looks
// at figures as alarms do.
type observer struct {
	sluice.Observer
	node *node
}

func (o *observer) Decided(t *sluice.Take, d *sluice.Decision, err error, took time.Duration) {
	if err == nil && d.Source != sluice.Degraded && d.Source != sluice.Unknown {
		for i := range d.Results {
			o.node.world.hears(&t.Demands[i], &d.Results[i])
		}
	}
	o.Observer.Decided(t, d, err, took)
}

func (o *observer) Consumed(k sluice.Key, l sluice.Limit, c sluice.Consumption) {
	if w := o.node.world; w.history.keep {
		w.note(o.node.port, "books %s of %s, taken at %s", c.Amount, k, c.Taken.UTC().Format(time.DateTime))
	}
	o.Observer.Consumed(k, l, c)
}

// stagger puts off what passes into a component by a few nanoseconds, drawn for
// the caller, so that two that come at the same instant do not race.
type stagger struct {
	sluice.Store
	node  *node
	where string
}

func (s *stagger) wait(ctx context.Context, what string, tag uint64) {
	w := s.node.world
	time.Sleep(between(dice(w.plan.Seed, hash(s.where), hash(what), uint64(s.node.slot), tag,
		uint64(w.elapsed()), uint64(callerOf(ctx))), 1, time.Microsecond))
}

func (s *stagger) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	s.wait(ctx, "take", tag(t.Demands[0].Key))
	return s.Store.Take(ctx, t, d)
}

func (s *stagger) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	s.wait(ctx, "adjust", tag(changes[0].Key))
	return s.Store.Adjust(ctx, changes, d)
}

func (s *stagger) Settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	s.wait(ctx, "settle", hash(st.ID))
	return s.Store.Settle(ctx, st, d)
}

func (s *stagger) Reset(ctx context.Context, keys []sluice.Key) error {
	s.wait(ctx, "reset", tag(keys[0]))
	return s.Store.Reset(ctx, keys)
}

func (s *stagger) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	s.wait(ctx, "hold", tag(requests[0].Key))
	return s.Store.Hold(ctx, requests, grants)
}

func (s *stagger) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	s.wait(ctx, "return", tag(returns[0].Key)^returns[0].ID.Seq)
	return s.Store.Return(ctx, returns)
}

func (s *stagger) Watch(wake func(sluice.Key)) { s.Store.(sluice.Watcher).Watch(wake) }

// front is where callers enter a node. A node that stands still lets nobody
// in, and takes that may be decided with held tokens enter one at a time for
// each bucket: those who wait for the same request for tokens would all wake
// at once.
type front struct{ stagger }

func (f *front) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if err := f.node.world.awake(ctx, f.node.slot); err != nil {
		return err
	}
	f.wait(ctx, "take", tag(t.Demands[0].Key))
	if t.ID == "" && !t.Peek && !t.UpTo {
		for i := range t.Demands {
			if holdAhead(t.Demands[i].Limit) {
				leave, err := f.node.gates.enter(ctx, t.Demands[i].Key)
				if err != nil {
					return err
				}
				defer leave()
				f.wait(ctx, "after the gate", uint64(i))
			}
		}
	}
	return f.Store.Take(ctx, t, d)
}

// gates let one at a time pass for each key, in the order in which they came.
type gates struct {
	mu    sync.Mutex
	lines map[sluice.Key][]chan struct{}
}

func (g *gates) enter(ctx context.Context, k sluice.Key) (leave func(), err error) {
	turn := make(chan struct{})
	g.mu.Lock()
	if g.lines == nil {
		g.lines = map[sluice.Key][]chan struct{}{}
	}
	g.lines[k] = append(g.lines[k], turn)
	if len(g.lines[k]) == 1 {
		close(turn)
	}
	g.mu.Unlock()
	leave = func() { g.leave(k, turn) }
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

func (g *gates) leave(k sluice.Key, turn chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	line := g.lines[k]
	for i := range line {
		if line[i] != turn {
			continue
		}
		line = append(line[:i:i], line[i+1:]...)
		g.lines[k] = line
		if i == 0 && len(line) > 0 {
			close(line[0])
		}
		return
	}
}
