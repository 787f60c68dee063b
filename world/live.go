package world

import (
	"errors"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/storetest"
)

// Live plays the callers of a plan against a real store, in real time, of which
// each node has its own client; they are closed. The plan's faults are left to whoever calls, and the
// checks are those that follow from what callers are told: the bound,
// accounting, refusals, figures, waiting and repeats.
//
// The store has to run on this machine, so that its clock is ours. Its key
// space may be shared: each plan has a namespace and ids of its own.
func Live(p Plan, clients []sluice.Store) *Report {
	w := newWorld(p.live(), false)
	w.clocks = newClocks(0)
	w.live, w.clients = true, clients
	for slot := range w.plan.Nodes {
		w.start(slot)
	}
	w.drive()
	w.callers.Wait()
	for slot := range w.plan.Nodes {
		w.stop(slot)
	}
	w.messages.Wait()
	w.supposeEffects()
	return w.report()
}

// live is a plan for real time: without faults, without what makes it last
// long, and without resets, of which nobody can tell when they happened.
func (p Plan) live() Plan {
	p.Faults = nil
	p.Buckets, p.Ops = slices.Clone(p.Buckets), slices.Clone(p.Ops)
	namespace := "world-" + time.Now().Format("150405.000000") + "-" + string(rune('a'+p.Seed%26))
	for i := range p.Buckets {
		p.Buckets[i].Key.Namespace = namespace
	}
	p.Ops = slices.DeleteFunc(p.Ops, func(op Op) bool { return op.Kind == OpReset || op.Kind == OpErase })
	for i := range p.Ops {
		op := &p.Ops[i]
		op.At = op.At * 3 * time.Second / p.Length
		op.ID = namespace + op.ID
		op.Patience, op.GiveUp = min(op.Patience, 2*time.Second), min(op.GiveUp, time.Second)
		op.Steps = slices.Clone(op.Steps)
		for n := range op.Steps {
			op.Steps[n].After = min(op.Steps[n].After, 500*time.Millisecond)
		}
	}
	p.Length = 3 * time.Second
	return p
}

// supposeEffects makes up what happened in the store from what callers were
// told: each operation at some moment of its call, and if that is not known at
// any moment from then on.
func (w *World) supposeEffects() {
	end := w.clocks.stamp()
	takes := map[string]*Told{}
	for _, t := range w.told {
		if t.Take != nil && t.Take.ID != "" && t.Err == nil && t.Decision.Allowed {
			takes[t.Take.ID] = t
		}
	}
	for _, t := range w.told {
		e := &Effect{Stamp: t.Call, Until: t.Return, Caller: t.Caller, Take: t.Take, Changes: t.Changes, Settled: t.Settled, Decision: t.Decision}
		unknown := errors.Is(t.Err, sluice.ErrUnknown) || t.Err == nil && t.Decision.Source == sluice.Unknown
		switch {
		case t.Err == nil && !t.degraded():
		case !unknown:
			continue // it certainly did not happen
		default:
			e.Until = end
			e.Decision = sluice.Decision{Time: time.UnixMicro(t.Call.Store), Allowed: t.Take == nil, Demands: t.Changes}
			if t.Settled != nil && takes[t.Settled.ID] != nil {
				e.Decision.Demands = takes[t.Settled.ID].Take.Demands
			} else if t.Take != nil {
				e.Decision.Demands = t.Take.Demands
			}
			for _, d := range e.Decision.Demands {
				r := sluice.Result{Returned: sluice.Thousandths(max(d.Cost.Thousandths(), -d.Cost.Thousandths()))}
				if t.Take != nil {
					r = sluice.Result{Consumed: d.Charge()}
				}
				e.Decision.Results = append(e.Decision.Results, r)
			}
		}
		w.store.effects = append(w.store.effects, e)
	}
}

// inFlightTold is inFlight by what callers were told: a place is taken once
// the caller knows, and free as soon as somebody wants to end its lease, or
// once it has expired.
func (w *World) inFlightTold(b *Bucket) []Failure {
	var h storetest.History
	for _, t := range w.told {
		if !t.allowed() || t.degraded() {
			continue
		}
		i := slices.IndexFunc(t.Take.Demands, func(d sluice.Demand) bool { return d.Key == b.Key })
		if i < 0 || t.Decision.Results[i].Consumed.Thousandths() == 0 {
			continue
		}
		cost := t.Decision.Results[i].Consumed.Thousandths()
		free := t.Decision.Time.Add(t.Take.Keep).UnixMicro()
		renewed := false
		for _, s := range w.told {
			if s.Settled == nil || s.Settled.ID != t.Take.ID {
				continue
			}
			switch s.Settled.Action {
			case sluice.Commit, sluice.Release:
				free = min(free, s.Call.Store)
			case sluice.Renew:
				renewed = true
			}
		}
		h.Add(t.Call.Store, t.Return.Store, cost)
		if !renewed || free <= t.Decision.Time.Add(t.Take.Keep).UnixMicro() {
			h.Add(max(free, t.Call.Store), max(free, t.Call.Store), -cost)
		}
	}
	if err := h.Check(b.Limit); err != nil {
		return []Failure{{"bound", 0, b.Key.String() + ": " + err.Error()}}
	}
	return nil
}
