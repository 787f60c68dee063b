package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/failover"
)

// waiting checks how callers wait.
//
//   - In line: nobody is let through to tokens that a caller before it in line
//     is waiting for, whichever node it is at. A take without a ticket comes
//     after all who wait. The order is that of rank: when the store first saw
//     the ticket, plus the patience of its priority; so nobody is overtaken for
//     ever. A node's callers are ordered by the node.
//   - Refused before its time is over is only who can never pass, and who is
//     told that the outcome is unknown.
//   - Who waits is charged once: what may have happened is not asked again.
//   - Who waits asks by the limits of the moment, not by those of its arrival.
//     That is checked in worlds without faults, where a question is decided
//     soon after it is asked; in all of them whoever can pass by the new limit
//     is served.
//   - Who gives up leaves no ticket behind, so it costs nobody anything. Where
//     messages are lost, it lapses.
//
// [World.sample] checks that whoever can pass is served.
//
// Tolerance: worlds whose store's clock steps back are left out, because a
// bucket's time is then not that of the answer.
func (w *World) waiting() (failures []Failure) {
	for _, t := range w.told {
		if !t.Waited || t.Err == nil || t.Lost {
			continue
		}
		var refused *sluice.RefusedError
		ended := errors.Is(t.Err, context.DeadlineExceeded) || errors.Is(t.Err, context.Canceled)
		if errors.As(t.Err, &refused) && !ended && refused.RetryAfter != sluice.Never && refused.Source != sluice.Unknown {
			failures = append(failures, Failure{"waiting", t.Return.At, fmt.Sprintf("caller %d is refused before its time is over: %v", t.Caller>>16-1, t.Err)})
		}
	}
	charged := map[caller]bool{}
	for _, e := range w.store.effects {
		if e.Take == nil || e.Take.Ticket.ID == (sluice.HoldID{}) || e.Err != nil || !e.Decision.Allowed || e.Decision.Repeated {
			continue
		}
		if charged[e.Caller] {
			failures = append(failures, Failure{"waiting", e.At, fmt.Sprintf("caller %d is charged again", e.Caller>>16-1)})
		}
		charged[e.Caller] = true
	}
	if w.has(Back) || w.live {
		return failures
	}
	if len(w.plan.Faults) == 0 {
		failures = append(failures, w.ranks()...)
		failures = append(failures, w.outdated()...)
	}
	l := tickets{in: map[sluice.Key]map[uint64]ticket{}}
	life := 0
	gone := map[sluice.HoldID]bool{}
	for _, e := range w.store.effects {
		if e.Life != life {
			clear(l.in)
			life = e.Life
		}
		if e.Err == nil {
			failures = append(failures, l.see(e)...)
		}
		for i := range e.Returned {
			gone[e.Returned[i].ID] = true
		}
	}
	if len(w.plan.Faults) > 0 {
		return failures
	}
	// An answer that a caller did not wait for may leave its ticket after it
	// was returned; then it lapses.
	for key, nodes := range l.in {
		for _, t := range nodes {
			if !gone[t.id] {
				failures = append(failures, Failure{"waiting", w.ended.At, fmt.Sprintf("a ticket for %s of %s stands though nobody waits", sluice.Thousandths(t.cost), key)})
			}
		}
	}
	return failures
}

// patience is how long callers of a priority let interactive ones pass that
// come after them: as [sluice.Limiter.Wait] documents it.
func patience(p sluice.Priority) time.Duration {
	switch p {
	case sluice.Interactive:
		return 0
	case sluice.Batch:
		return 30 * time.Second
	}
	return 10 * time.Second
}

// ranks checks that tickets rank by arrival and priority: whoever asks with a
// ticket says how long it still lets others pass. Messages that are not
// delayed make it later by what they take.
func (w *World) ranks() (failures []Failure) {
	arrived := map[caller]*Told{}
	for _, t := range w.told {
		if t.Waited {
			arrived[t.Caller] = t
		}
	}
	for _, e := range w.store.effects {
		t := arrived[e.Caller]
		if e.Take == nil || t == nil || e.Take.Ticket.ID == (sluice.HoldID{}) {
			continue
		}
		want := t.Call.At + patience(t.Take.Priority)
		if off := e.At + e.Take.Ticket.Rank - want; off < 0 || off > 10*usual {
			failures = append(failures, Failure{"waiting", e.At, fmt.Sprintf("the ticket of caller %d ranks %s later than it should", e.Caller>>16-1, off)})
		}
	}
	return failures
}

// outdated checks that nobody in line asks by a limit that has changed.
func (w *World) outdated() (failures []Failure) {
	for _, e := range w.store.effects {
		if e.Take == nil || e.Take.Ticket.ID == (sluice.HoldID{}) {
			continue
		}
		for i := range e.Take.Demands {
			dm := &e.Take.Demands[i]
			if b := w.bucket(dm.Key); dm.Limit != b.at(e.At) && dm.Limit != b.at(e.At-10*usual) {
				failures = append(failures, Failure{"waiting", e.At, fmt.Sprintf("caller %d asks for %s of %s by %s, which changed %s ago", e.Caller>>16-1, dm.Charge(), dm.Key, dm.Limit, e.At-b.Changed)})
			}
		}
	}
	return failures
}

// tickets are those that stand in buckets, one for each node.
type tickets struct {
	in map[sluice.Key]map[uint64]ticket
}

type ticket struct {
	id      sluice.HoldID
	rank    int64
	cost    int64
	expires int64
}

func (t *ticket) before(o *ticket) bool {
	return cmp.Or(cmp.Compare(t.rank, o.rank), cmp.Compare(t.id.Node, o.id.Node)) < 0
}

// see follows what happens to tickets.
func (l *tickets) see(e *Effect) (failures []Failure) {
	for i := range e.Returned {
		l.remove(e.Returned[i].Key, e.Returned[i].ID)
	}
	if e.Take == nil || e.Take.Peek || e.Decision.Repeated {
		return nil
	}
	now, id := e.Decision.Time.UnixMicro(), e.Take.Ticket.ID
	never := e.Decision.RetryAfter == sluice.Never
	for i := range e.Take.Demands {
		dm, r := &e.Take.Demands[i], &e.Decision.Results[i]
		mine := ticket{id: id, rank: math.MaxInt64, cost: dm.Charge().Thousandths(), expires: now + bucket.TicketLife.Microseconds()}
		if id != (sluice.HoldID{}) {
			mine.rank = now + e.Take.Ticket.Rank.Microseconds()
			if stood, ok := l.in[dm.Key][id.Node]; ok && stood.id == id && stood.expires > now {
				mine.rank = stood.rank
			}
		}
		switch {
		case e.Decision.Allowed && r.Consumed.Thousandths() > 0:
			var ahead int64
			for node, t := range l.in[dm.Key] {
				if t.expires > now && node != id.Node && t.before(&mine) {
					ahead += t.cost
				}
			}
			if r.Free.Thousandths() < ahead {
				failures = append(failures, Failure{"waiting", e.At, fmt.Sprintf(
					"caller %d gets %s of %s, of which %s are left, and %s are wanted by callers before it in line",
					e.Caller>>16-1, r.Consumed, dm.Key, r.Free, sluice.Thousandths(ahead))})
			}
			l.remove(dm.Key, id)
		case e.Decision.Allowed || never || r.Fits || dm.Shadow || id == (sluice.HoldID{}):
			l.remove(dm.Key, id)
		default:
			if l.in[dm.Key] == nil {
				l.in[dm.Key] = map[uint64]ticket{}
			}
			l.in[dm.Key][id.Node] = mine
		}
	}
	return failures
}

func (l *tickets) remove(k sluice.Key, id sluice.HoldID) {
	if t, ok := l.in[k][id.Node]; ok && t.id == id {
		delete(l.in[k], id.Node)
	}
}

const (
	// wakeUp is how long it may take, with nothing wrong, until a caller that
	// can pass is told so and has asked again; more than the few messages that
	// it takes, and than the time between two samples.
	wakeUp = 250 * time.Millisecond

	// renewal is how long it may take where notifications can be lost or a
	// node can leave a ticket behind, while a limit changes, and for windows
	// and concurrency, which cannot tell when those before in line have passed:
	// a caller asks every two seconds in any case.
	renewal = 2*time.Second + wakeUp

	sampleEvery = 100 * time.Millisecond
)

// sample looks every so often whether a caller that waits at the head of its
// node's line could pass, and checks that it is then served within one
// wake-up. While anything is wrong that keeps messages or nodes from working,
// it does not count.
func (w *World) sample(over <-chan struct{}) {
	since := map[*Told]time.Duration{}
	time.Sleep(sampleEvery + 13)
	ticker := time.NewTicker(sampleEvery)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
		}
		for _, t := range w.waiters() {
			if !w.working(t.Node) || !w.couldPass(t) {
				delete(since, t)
				continue
			}
			if since[t] == 0 {
				since[t] = w.elapsed()
			} else if waited := w.elapsed() - since[t]; waited > w.wakeUp(t) {
				w.fail("waiting", "caller %d could pass for %s and is not served", t.Caller>>16-1, waited)
				delete(since, t)
			}
		}
	}
}

// wakeUp is how long it may take a caller that can pass.
func (w *World) wakeUp(t *Told) time.Duration {
	for _, want := range t.Op.Wants {
		if b := &w.plan.Buckets[want.Bucket]; b.Limit.Algorithm != sluice.TokenBucket || b.Other.Amount.Thousandths() != 0 {
			return renewal
		}
	}
	if len(w.plan.Faults) > 0 {
		return renewal
	}
	return wakeUp
}

// waiters are the callers that wait in line.
func (w *World) waiters() []*Told {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*Told, 0, len(w.inLine))
	for t := range w.inLine {
		all = append(all, t)
	}
	return all
}

// working reports whether nothing keeps a node from asking the store.
func (w *World) working(n *node) bool {
	if n.port.dead() || w.at(n.slot) != n || n.guarded.State() != failover.Normal {
		return false
	}
	now := w.planNow()
	for i := range w.plan.Faults {
		switch f := &w.plan.Faults[i]; f.Kind {
		case NoLedger, Wall, Deaf:
		default:
			// And until its effects are over.
			if now >= f.At && now < f.At+f.For+time.Second {
				return false
			}
		}
	}
	return true
}

// couldPass reports whether the store would let a caller through with the
// ticket it has asked with, under the limits of the moment.
func (w *World) couldPass(t *Told) bool {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	last, ok := s.asked[t.Caller]
	if !ok || last.Ticket.ID == (sluice.HoldID{}) {
		return false
	}
	for i := range last.Demands {
		// A later caller of its node may have gone ahead of it.
		if s.leads[holdKey{last.Demands[i].Key, sluice.HoldID{Node: last.Ticket.ID.Node}}] != t.Caller {
			return false
		}
	}
	var d sluice.Decision
	err := s.model.Take(context.Background(), &sluice.Take{Demands: w.demands(t.Op), Ticket: last.Ticket, UpTo: last.UpTo, Peek: true}, &d)
	return err == nil && d.Allowed
}
