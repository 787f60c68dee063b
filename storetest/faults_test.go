package storetest

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// faulty is the model with one fault. Its functions see takes, decisions and
// states before and after the model does; those that are nil do nothing.
type faulty struct {
	*Model
	before   func(*faulty, *sluice.Take)                                  // may change the take
	after    func(*faulty, *sluice.Take, *sluice.Decision)                // may change the answer
	states   func(f *faulty, k sluice.Key, e *entry, now int64)           // on every bucket, before every operation
	written  func(e *entry)                                               // on the buckets of a take, after it
	settling func(f *faulty, st *sluice.Settlement, r *receipt)           // before a settlement
	adjusted func(f *faulty, changes []sluice.Demand, d *sluice.Decision) // after an adjustment
	returned func(f *faulty, r *sluice.HoldReturn)                        // before a return
}

// touch runs f on every bucket, as an operation would first.
func (f *faulty) touch() {
	if f.states == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, e := range f.buckets {
		f.states(f, k, e, f.now().UnixMicro())
	}
}

func (f *faulty) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	f.touch()
	own := *t
	own.Demands = slices.Clone(t.Demands)
	if f.before != nil {
		f.before(f, &own)
	}
	if err := f.Model.Take(ctx, &own, d); err != nil {
		return err
	}
	d.Demands = t.Demands
	if f.written != nil && !t.Peek {
		f.mu.Lock()
		for i := range t.Demands {
			if e := f.buckets[t.Demands[i].Key]; e != nil && d.Results[i].Consumed.Thousandths() != 0 {
				f.written(e)
			}
		}
		f.mu.Unlock()
	}
	if f.after != nil {
		f.after(f, t, d)
	}
	return nil
}

func (f *faulty) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	f.touch()
	err := f.Model.Adjust(ctx, changes, d)
	if err == nil && f.adjusted != nil {
		f.adjusted(f, changes, d)
	}
	return err
}

func (f *faulty) Settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	f.touch()
	if f.settling != nil {
		f.mu.Lock()
		if r := f.receipts[st.ID]; r != nil {
			f.settling(f, st, r)
		}
		f.mu.Unlock()
	}
	return f.Model.Settle(ctx, st, d)
}

func (f *faulty) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	f.touch()
	return f.Model.Hold(ctx, requests, grants)
}

func (f *faulty) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	f.touch()
	if f.returned != nil {
		f.mu.Lock()
		for i := range returns {
			f.returned(f, &returns[i])
		}
		f.mu.Unlock()
	}
	return f.Model.Return(ctx, returns)
}

func (f *faulty) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	f.touch()
	return f.Model.List(ctx, q)
}

func mintsRemainder(m *Model) sluice.Store {
	return &faulty{Model: m, written: func(e *entry) {
		if e.spec.Limit.Algorithm == sluice.TokenBucket && e.state.Rem > 0 {
			amount, _ := e.spec.Limit.Rate()
			e.state.Time -= (e.state.Rem + amount - 1) / amount // the time not yet paid out, rounded
			e.state.Rem = 0
		}
	}}
}

func dropsRemainder(m *Model) sluice.Store {
	return &faulty{Model: m, written: func(e *entry) { e.state.Rem = 0 }}
}

func rewinds(m *Model) sluice.Store {
	return &faulty{Model: m, states: func(_ *faulty, _ sluice.Key, e *entry, now int64) {
		if e.spec.Limit.Algorithm == sluice.TokenBucket {
			e.state.Time = min(e.state.Time, now)
		}
	}}
}

func peekConsumes(m *Model) sluice.Store {
	return &faulty{Model: m, before: func(_ *faulty, t *sluice.Take) {
		if !slices.ContainsFunc(t.Demands, func(d sluice.Demand) bool { return d.Limit.Algorithm == sluice.Concurrency }) {
			t.Peek = false
		}
	}}
}

// refundsAboveFull lets what was refunded beyond full be taken later.
func refundsAboveFull(m *Model) sluice.Store {
	above := map[sluice.Key]int64{}
	return &faulty{Model: m, adjusted: func(f *faulty, changes []sluice.Demand, d *sluice.Decision) {
		for i, c := range changes {
			if r := &d.Results[i]; c.Cost.Thousandths() < -r.Returned.Thousandths() {
				above[c.Key] += -c.Cost.Thousandths() - r.Returned.Thousandths()
			}
		}
	}, after: func(f *faulty, t *sluice.Take, d *sluice.Decision) {
		k, charge := t.Demands[0].Key, t.Demands[0].Charge().Thousandths()
		if len(t.Demands) == 1 && !d.Allowed && above[k] >= charge {
			above[k] -= charge
			d.Allowed, d.Results[0] = true, sluice.Result{Fits: true, Consumed: sluice.Thousandths(charge)}
			d.Conclude()
		}
	}}
}

func forgivesDebt(m *Model) sluice.Store {
	return &faulty{Model: m, states: func(_ *faulty, _ sluice.Key, e *entry, _ int64) {
		e.state.Used = min(e.state.Used, e.spec.Capacity)
	}}
}

// alsoConsumes consumes more than it says, without asking.
func (f *faulty) alsoConsumes(t *sluice.Take, amount func(i int) int64) {
	for i, d := range t.Demands {
		if d.Cost = sluice.Thousandths(amount(i)); d.Cost.Thousandths() != 0 && d.Limit.Algorithm != sluice.Concurrency {
			var ignored sluice.Decision
			f.Model.Adjust(context.Background(), []sluice.Demand{d}, &ignored) //nolint:errcheck // the take went well
		}
	}
}

func burnsFraction(m *Model) sluice.Store {
	return &faulty{Model: m, after: func(f *faulty, t *sluice.Take, d *sluice.Decision) {
		if t.UpTo && d.Allowed && !t.Peek {
			f.alsoConsumes(t, func(i int) int64 {
				if d.Results[i].Consumed.Thousandths() < t.Demands[i].Charge().Thousandths() {
					return max(d.Results[i].Remaining.Thousandths(), 0) % sluice.Token
				}
				return 0
			})
		}
	}}
}

// booksWhatCameBack counts a refund as what refill left of it.
func booksWhatCameBack(m *Model) sluice.Store {
	return &faulty{Model: m, adjusted: func(_ *faulty, _ []sluice.Demand, d *sluice.Decision) {
		for i := range d.Results {
			if r := &d.Results[i]; r.Consumed.Thousandths() < 0 {
				r.Consumed = sluice.Thousandths(-r.Returned.Thousandths())
			}
		}
	}}
}

func shadowBlocks(m *Model) sluice.Store {
	return &faulty{Model: m, before: func(_ *faulty, t *sluice.Take) {
		for i := range t.Demands {
			t.Demands[i].Shadow = false
		}
	}}
}

func ignoresCounting(m *Model) sluice.Store {
	return &faulty{Model: m, before: func(_ *faulty, t *sluice.Take) {
		for i := range t.Demands {
			t.Demands[i].CountRefused = false
		}
	}}
}

func lateBoundary(m *Model) sluice.Store {
	now := m.now
	m.now = func() time.Time { return now().Add(-time.Microsecond) }
	return &faulty{Model: m, after: func(_ *faulty, _ *sluice.Take, d *sluice.Decision) { d.Time = d.Time.Add(time.Microsecond) }}
}

func immortalHolders(m *Model) sluice.Store {
	return &faulty{Model: m, written: func(e *entry) {
		if x := e.state.Ext; x != nil {
			for i := range x.Holders {
				x.Holders[i].Expires += time.Hour.Microseconds()
			}
		}
	}}
}

func mintsOnChange(m *Model) sluice.Store {
	return &faulty{Model: m, before: func(f *faulty, t *sluice.Take) {
		for i := range t.Demands {
			if e := f.buckets[t.Demands[i].Key]; e != nil && e.spec.Limit != t.Demands[i].Limit {
				delete(f.buckets, t.Demands[i].Key)
			}
		}
	}}
}

func refusalChangesLimit(m *Model) sluice.Store {
	return &faulty{Model: m, after: func(f *faulty, t *sluice.Take, d *sluice.Decision) {
		for i := range t.Demands {
			demand := &t.Demands[i]
			spec, err := bucket.Compile(demand.Limit)
			if e := f.buckets[demand.Key]; err == nil && e != nil && e.spec.Limit != demand.Limit && !t.Peek && !d.Allowed {
				spec.Adopt(&e.state, e.spec, f.now().UnixMicro())
				e.spec = spec
			}
		}
	}}
}

func forgetsEarly(m *Model) sluice.Store {
	return &faulty{Model: m, states: func(f *faulty, k sluice.Key, e *entry, now int64) {
		if v := e.spec.View(&e.state, now); v.Held == 0 && e.spec.ResetIn(&e.state, v) < 1000 { // the expiry in milliseconds, floored
			delete(f.buckets, k)
		}
	}}
}

func gluesKeys(m *Model) sluice.Store {
	return &faulty{Model: m, before: func(_ *faulty, t *sluice.Take) {
		for i := range t.Demands {
			k := &t.Demands[i].Key
			*k = sluice.Key{Namespace: k.Namespace, Limit: k.Entity + ":" + k.Resource + ":" + k.Limit}
		}
	}}
}

// The faults that need more than a change before or after.

type ones struct{ *Model }

func oneByOne(m *Model) sluice.Store { return ones{m} }

func (s ones) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if len(t.Demands) == 1 || t.ID != "" {
		return s.Model.Take(ctx, t, d)
	}
	var results []sluice.Result
	allowed := true
	for i := range t.Demands {
		one := *t
		one.Demands = t.Demands[i : i+1]
		one.Peek = t.Peek || !allowed
		if err := s.Model.Take(ctx, &one, d); err != nil {
			return err
		}
		allowed = allowed && d.Allowed
		results = append(results, d.Results[0])
	}
	d.Allowed, d.Demands, d.Results = allowed, t.Demands, results
	d.Conclude()
	return nil
}

type leaves struct{ *Model }

func leavesFields(m *Model) sluice.Store { return leaves{m} }

func (s leaves) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	repeated, taken := d.Repeated, d.Taken
	err := s.Model.Take(ctx, t, d)
	d.Repeated, d.Taken = d.Repeated || repeated, taken
	return err
}

type pages struct{ *Model }

func firstPageOnly(m *Model) sluice.Store { return pages{m} }

func (s pages) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	q.Cursor = ""
	return s.Model.List(ctx, q)
}

type looks struct{ *Model }

func looksThenTakes(m *Model) sluice.Store { return looks{m} }

func (s looks) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if t.Peek || t.ID != "" || t.UpTo || t.Ticket.ID.Node != 0 || slices.ContainsFunc(t.Demands, func(d sluice.Demand) bool { return d.Shadow || d.CountRefused }) {
		return s.Model.Take(ctx, t, d)
	}
	peek := *t
	peek.Peek = true
	if err := s.Model.Take(ctx, &peek, d); err != nil || !d.Allowed {
		return err
	}
	runtime.Gosched() // what a round trip to a database would do
	changes := slices.Clone(t.Demands)
	for i := range changes {
		changes[i].Cost = changes[i].Charge()
	}
	err := s.Model.Adjust(ctx, changes, d)
	d.Demands = t.Demands
	return err
}
