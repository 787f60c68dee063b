package world

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
)

// World is a plan being played.
type World struct {
	plan    Plan
	clocks  *clocks
	store   *truth
	ledger  *ledger
	history *history
	begun   map[*Fault]time.Duration // when each fault did

	shift atomic.Int64 // the idle time so far, which is not in the plan
	quiet atomic.Bool  // nothing is wrong, and messages take no time

	mu     sync.Mutex
	nodes  []*node
	gens   []int
	hands  []atomic.Pointer[hands]
	told   []*Told
	heard  []figure // by nodes
	inLine map[*Told]bool

	callers  sync.WaitGroup
	messages sync.WaitGroup

	failures []Failure // found while it was played
	ended    Stamp     // when all callers had been told

	live    bool // it is played in real time, with these clients, one for each node
	clients []sluice.Store
}

// hands are the clocks of a node.
type hands struct {
	wall   time.Duration // ahead
	stood  time.Duration // of the monotonic clock, so far
	frozen time.Duration // since when it stands; 0 if it goes
}

// Play plays a plan and returns what there is to say about it. It has to be
// called in a bubble of testing/synctest. The history is only kept if asked.
func Play(p Plan, keep bool) *Report {
	w := newWorld(p, keep)
	for slot := range p.Nodes {
		w.start(slot)
	}
	over := make(chan struct{})
	w.messages.Go(func() { w.sample(over) })
	w.drive()
	w.callers.Wait()
	close(over)
	w.comeBack()
	w.comeBackAlone()
	for slot := range p.Nodes {
		w.stop(slot)
	}
	w.messages.Wait()
	return w.report()
}

func newWorld(p Plan, keep bool) *World {
	w := &World{
		plan: p, clocks: newClocks(p.Ahead), history: &history{keep: keep}, ledger: newLedger(),
		nodes: make([]*node, p.Nodes), gens: make([]int, p.Nodes), hands: make([]atomic.Pointer[hands], p.Nodes),
		inLine: map[*Told]bool{}, begun: map[*Fault]time.Duration{},
	}
	w.store = newTruth(w)
	return w
}

// event is something that the plan has happen at a moment.
type event struct {
	at   time.Duration
	what func()
}

// drive lets the plan happen.
func (w *World) drive() {
	var events []event
	for i := range w.plan.Ops {
		op := &w.plan.Ops[i]
		events = append(events, event{op.At, func() { w.callers.Go(func() { w.perform(op) }) }})
	}
	for i := range w.plan.Faults {
		f := &w.plan.Faults[i]
		events = append(events, event{f.At, func() { w.begin(f) }})
		if f.Kind != Idle { // which takes no time of the plan
			events = append(events, event{f.At + f.For, func() { w.end(f) }})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	for _, e := range events {
		time.Sleep(e.at - w.planNow())
		e.what()
	}
}

// begin does what a fault does at once. Most are looked at by messages alone.
func (w *World) begin(f *Fault) {
	w.note(nil, "%s", f)
	w.begun[f] = w.elapsed()
	switch f.Kind {
	case Crash:
		w.kill(f.Node)
	case Restart:
		w.messages.Go(func() { w.stop(f.Node) })
	case Idle:
		for slot := range w.nodes {
			w.stop(slot)
		}
		time.Sleep(f.For)
		w.shift.Add(int64(f.For))
		for slot := range w.nodes {
			w.restart(slot)
		}
	case Forget, Rollback:
		w.store.forget(f)
		w.wakeAll(f)
	case Forward:
		w.clocks.step(f.Size)
	case Back:
		w.clocks.step(-f.Size)
	case Wall:
		w.turn(f.Node, func(h *hands) { h.wall += f.Size })
	case Suspend:
		w.turn(f.Node, func(h *hands) { h.frozen = w.elapsed() })
	}
}

func (w *World) end(f *Fault) {
	switch f.Kind {
	case Crash, Restart:
		w.restart(f.Node)
	case Partition, Refuse:
		w.wakeAll(f)
	case Suspend:
		w.turn(f.Node, func(h *hands) {
			if h.frozen != 0 {
				h.stood += w.elapsed() - h.frozen
				h.frozen = 0
			}
		})
	}
}

// restart starts a node where there is none.
func (w *World) restart(slot int) {
	if w.at(slot) == nil {
		w.start(slot)
	}
}

// wakeAll is what watchers do after an interruption.
func (w *World) wakeAll(f *Fault) {
	for slot := range w.nodes {
		if n := w.at(slot); n != nil && (!f.aboutNode() || f.Node == slot) {
			n.port.wake(sluice.AnyKey, 1)
		}
	}
}

// notify tells all nodes of room.
func (w *World) notify(keys []sluice.Key) {
	for slot := range w.nodes {
		if n := w.at(slot); n != nil {
			for i, k := range keys {
				n.port.wake(k, uint64(i))
			}
		}
	}
}

// at is the node in a slot, or nil.
func (w *World) at(slot int) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[slot]
}

// put puts a node, or none, in a slot, and returns which was there.
func (w *World) put(slot int, n *node) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.nodes[slot]
	w.nodes[slot] = n
	return before
}

func (w *World) elapsed() time.Duration { return time.Since(w.clocks.start) }

// planNow is how far the plan has come: without the time that was idle.
func (w *World) planNow() time.Duration { return w.elapsed() - time.Duration(w.shift.Load()) }

// fault is one that is active for a node, or nil.
func (w *World) fault(k FaultKind, slot int) *Fault {
	now := w.planNow()
	for i := range w.plan.Faults {
		if f := &w.plan.Faults[i]; f.active(k, slot, now) {
			return f
		}
	}
	return nil
}

// has reports whether the plan has a fault of a kind.
func (w *World) has(k FaultKind) bool {
	return slices.ContainsFunc(w.plan.Faults, func(f Fault) bool { return f.Kind == k })
}

func (w *World) active(k FaultKind, slot int) bool { return w.fault(k, slot) != nil }

// awake waits until a node that stands still goes on.
func (w *World) awake(ctx context.Context, slot int) error {
	for {
		f := cmp.Or(w.fault(Pause, slot), w.fault(Suspend, slot))
		if f == nil {
			return nil
		}
		jitter := between(dice(w.plan.Seed, hash("awake"), uint64(slot), uint64(w.elapsed()), uint64(callerOf(ctx))), 1, time.Millisecond)
		select {
		case <-time.After(f.At + f.For - w.planNow() + jitter):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nodeClock is what the clocks of a node say. It is read very often.
func (w *World) nodeClock(slot int) (wall time.Time, mono time.Duration) {
	now, h := time.Now(), w.hands[slot].Load()
	mono = now.Sub(w.clocks.start)
	if h == nil {
		return now, mono
	}
	if h.frozen != 0 {
		mono = h.frozen
	}
	return now.Add(h.wall), mono - h.stood
}

// turn changes the clocks of a node.
func (w *World) turn(slot int, change func(h *hands)) {
	var h hands
	if before := w.hands[slot].Load(); before != nil {
		h = *before
	}
	change(&h)
	w.hands[slot].Store(&h)
}

// fail remembers a failure that is found while the world is played.
func (w *World) fail(check, format string, args ...any) {
	f := Failure{check, w.elapsed(), fmt.Sprintf(format, args...)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, f)
}

// over is when the last fault has ended, in the plan's time.
func (w *World) over() (end time.Duration) {
	for i := range w.plan.Faults {
		if f := &w.plan.Faults[i]; f.Kind != Idle {
			end = max(end, f.At+f.For)
		}
	}
	return end
}
