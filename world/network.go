package world

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storetest"
)

// port is a node's way to the store. Each call is a message there and a
// message back, and each of them meets the faults of the moment. A call whose
// context ends is unknown, and its message goes on.
type port struct {
	world *World
	slot  int
	gen   int

	died chan struct{} // closed when the node is killed

	mu    sync.Mutex
	wakes []func(sluice.Key)
}

var (
	_ sluice.Store   = (*port)(nil)
	_ sluice.Watcher = (*port)(nil)
)

// usual is how long a message takes when nothing is wrong.
const usual = 2 * time.Millisecond

// send carries a call to the store, where do happens, and the answer back.
func (p *port) send(ctx context.Context, what string, tag uint64, do func()) error {
	w := p.world
	if w.quiet.Load() {
		do()
		return nil
	}
	if err := w.awake(ctx, p.slot); err != nil {
		return fmt.Errorf("%w: %w", sluice.ErrUnavailable, err)
	}
	if p.dead() {
		return fmt.Errorf("%w: the node is dead", sluice.ErrUnavailable)
	}
	r := dice(w.plan.Seed, hash(what), uint64(p.slot), uint64(p.gen), tag, uint64(w.elapsed()), uint64(callerOf(ctx)))
	if w.active(Refuse, -1) {
		time.Sleep(between(r, 0, usual))
		return fmt.Errorf("%w: connection refused", sluice.ErrUnavailable)
	}
	most := usual
	if f := w.fault(Slow, -1); f != nil {
		most = f.Size
	}
	there, back := between(r, 1, most), between(r, 1, most)
	before := w.active(Partition, p.slot) || w.active(LoseBefore, -1) && oneIn(r, 2)
	after := w.active(LoseAfter, -1) && oneIn(r, 2)
	jitter := between(r, 1, usual)
	done := make(chan struct{})
	w.messages.Go(func() {
		time.Sleep(there)
		for f := w.fault(Stall, -1); f != nil; f = w.fault(Stall, -1) {
			time.Sleep(f.At + f.For - w.planNow() + jitter)
		}
		if before || w.active(Refuse, -1) {
			w.note(p, "%s is lost before it happens", what)
			return
		}
		do()
		time.Sleep(back)
		if after || w.active(Partition, p.slot) || p.dead() {
			w.note(p, "the answer to %s is lost", what)
			return
		}
		w.awake(context.Background(), p.slot) //nolint:errcheck // it has no end
		close(done)
	})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", sluice.ErrUnknown, ctx.Err())
	case <-p.died:
		return fmt.Errorf("%w: the node is dead", sluice.ErrUnavailable)
	case <-time.After(time.Minute):
		return fmt.Errorf("%w: the connection is lost", sluice.ErrUnknown)
	}
}

func (p *port) dead() bool {
	select {
	case <-p.died:
		return true
	default:
		return false
	}
}

func (p *port) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	take := *t
	take.Demands = slices.Clone(t.Demands)
	var e *Effect
	if err := p.send(ctx, "take", tag(take.Demands[0].Key), func() {
		e = p.world.store.take(&take, callerOf(ctx), p.slot)
		p.world.noteDecision(p, e)
		p.world.notify(e.freed())
	}); err != nil {
		return err
	}
	return e.answer(d, t.Demands)
}

func (p *port) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	copied := slices.Clone(changes)
	var e *Effect
	if err := p.send(ctx, "adjust", tag(changes[0].Key), func() {
		e = p.world.store.adjust(copied, callerOf(ctx), p.slot)
		p.world.noteDecision(p, e)
		p.world.notify(e.freed())
	}); err != nil {
		return err
	}
	return e.answer(d, changes)
}

func (p *port) Settle(ctx context.Context, s *sluice.Settlement, d *sluice.Decision) error {
	copied := *s
	var e *Effect
	if err := p.send(ctx, "settle", hash(s.ID), func() {
		e = p.world.store.settle(&copied, callerOf(ctx), p.slot)
		p.world.noteDecision(p, e)
		p.world.notify(e.freed())
	}); err != nil {
		return err
	}
	return e.answer(d, e.Decision.Demands)
}

func (p *port) Reset(ctx context.Context, keys []sluice.Key) error {
	copied := slices.Clone(keys)
	var e *Effect
	if err := p.send(ctx, "reset", tag(keys[0]), func() {
		e = p.world.store.reset(copied, callerOf(ctx), p.slot)
		p.world.note(p, "reset %v", copied)
		p.world.notify(e.freed())
	}); err != nil {
		return err
	}
	return e.Err
}

func (p *port) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	copied, granted := slices.Clone(requests), make([]sluice.Grant, len(requests))
	var failed error
	if err := p.send(ctx, "hold", tag(requests[0].Key), func() {
		failed = p.world.store.hold(copied, granted)
		for i := range granted {
			p.world.note(p, "hold %s: %s to %s of %s, previous %d spent %s: %s, remaining %s, retry in %s, recalled %v, held %v", copied[i].Key,
				copied[i].Min, copied[i].Max, copied[i].Limit, copied[i].Previous.Seq, copied[i].Spent,
				granted[i].Amount, granted[i].Remaining, granted[i].RetryIn, granted[i].Recalled, granted[i].Held)
			if copied[i].Previous != (sluice.HoldID{}) { // some of it may be free again
				p.world.notify([]sluice.Key{copied[i].Key})
			}
		}
	}); err != nil {
		return err
	}
	copy(grants, granted)
	return failed
}

func (p *port) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	copied := slices.Clone(returns)
	var failed error
	if err := p.send(ctx, "return", tag(returns[0].Key), func() {
		failed = p.world.store.giveBack(copied, p.slot)
		keys := make([]sluice.Key, len(copied))
		for i := range copied {
			keys[i] = copied[i].Key
			p.world.note(p, "return %s: %d, spent %s", copied[i].Key, copied[i].ID.Seq, copied[i].Spent)
		}
		p.world.notify(keys)
	}); err != nil {
		return err
	}
	return failed
}

func (p *port) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	var page sluice.Page
	var failed error
	if err := p.send(ctx, "list", hash(q.Entity), func() {
		failed = p.world.store.do(func(m *storetest.Model) (err error) {
			page, err = m.List(context.Background(), q)
			return err
		})
	}); err != nil {
		return sluice.Page{}, err
	}
	return page, failed
}

func (p *port) Forget(ctx context.Context, f sluice.Forgetting) (string, error) {
	var failed error
	if err := p.send(ctx, "forget", hash(f.Namespace), func() {
		failed = p.world.store.do(func(m *storetest.Model) error {
			_, err := m.Forget(context.Background(), f)
			return err
		})
	}); err != nil {
		return "", err
	}
	return "", failed
}

func (p *port) Capabilities() sluice.Capabilities {
	return sluice.CanHold | sluice.CanList | sluice.CanLease | sluice.CanWindow
}

func (p *port) Close() error { return nil }

// Watch tells of room as stores do, and of any key once it listens.
func (p *port) Watch(wake func(sluice.Key)) {
	p.mu.Lock()
	p.wakes = append(p.wakes, wake)
	p.mu.Unlock()
	p.wake(sluice.AnyKey, 0)
}

// wake tells those who listen, after the time that a message takes.
func (p *port) wake(k sluice.Key, n uint64) {
	w := p.world
	p.mu.Lock()
	wakes := p.wakes
	p.mu.Unlock()
	if len(wakes) == 0 || p.dead() || w.quiet.Load() {
		return
	}
	r := dice(w.plan.Seed, hash("wake"), uint64(p.slot), uint64(p.gen), tag(k), n, uint64(w.elapsed()))
	most := usual
	if f := w.fault(Slow, -1); f != nil {
		most = f.Size
	}
	delay := between(r, 1, most)
	lost := k != sluice.AnyKey && (w.active(Deaf, p.slot) && !oneIn(r, 4) || w.active(Partition, p.slot))
	w.messages.Go(func() {
		time.Sleep(delay)
		if lost || p.dead() {
			w.note(p, "is not told of room in %s", k)
			return
		}
		w.awake(context.Background(), p.slot) //nolint:errcheck // it has no end
		for _, wake := range wakes {
			wake(k)
		}
	})
}

// answer fills in the caller's decision.
func (e *Effect) answer(d *sluice.Decision, demands []sluice.Demand) error {
	if e.Err != nil {
		return e.Err
	}
	results := append(d.Results[:0], e.Decision.Results...)
	*d = e.Decision
	d.Demands, d.Results = demands, results
	return nil
}

func tag(k sluice.Key) uint64 { return hash(k.String()) }
