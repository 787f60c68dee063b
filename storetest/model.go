package storetest

import (
	"context"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Model is a [sluice.Store] written to be obviously right, and nothing else:
// one lock, one map, and no arithmetic but package bucket's. What the contract
// leaves open is settled by it: where another store answers differently, the
// other store is wrong. It is far too slow and never forgets, so it is no
// store for a program.
//
// The rules that all operations share:
//
//   - Full means absent. A bucket with nothing used and nothing held is as
//     good as one that never was, whatever its limit and its counter of net
//     consumption were. Only a recall mark and tickets must be kept until they
//     lapse, or the next hold would be granted what somebody is waiting for.
//   - An operation that decides or consumes under a limit (Take, Adjust, Hold)
//     makes the bucket adopt that limit if it was written under another. One
//     that gives back (Settle, Return, Reset) goes by the limit that the
//     bucket has.
//   - Only what changes is written. A refusal does not even leave the limit
//     it asked under, unless that refills at another rate: the wait it was told
//     would not come true otherwise.
//   - Time is the clock's, but for each bucket never before its last change.
//     An operation on several buckets happens at the latest of their times.
//   - A limit that is not valid is an error, and nothing happens.
type Model struct {
	now func() time.Time

	mu       sync.Mutex
	closed   bool
	buckets  map[sluice.Key]*entry
	receipts map[string]*receipt
}

var _ sluice.Store = (*Model)(nil)

// entry is a bucket as it is kept: a state and the limit it was written under.
type entry struct {
	spec  *bucket.Spec
	state bucket.State
}

// NewModel is an empty model that lives by the given clock, of which it uses
// the microseconds.
func NewModel(now func() time.Time) *Model {
	return &Model{
		now:      now,
		buckets:  map[sluice.Key]*entry{},
		receipts: map[string]*receipt{},
	}
}

// Capabilities are all there are.
func (m *Model) Capabilities() sluice.Capabilities {
	return sluice.CanHold | sluice.CanList | sluice.CanLease | sluice.CanWindow
}

// Close makes every later call answer [sluice.ErrClosed].
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// begin reads the clock once for the whole operation. The lock is held.
func (m *Model) begin() (now int64, err error) {
	if m.closed {
		return 0, sluice.ErrClosed
	}
	return m.now().UnixMicro(), nil
}

// working is a copy of one bucket, brought to the present, for an operation
// to work on. Nothing is changed until the copy is written back.
type working struct {
	entry
	key     sluice.Key
	now     int64 // the clock's time, which may be before the bucket's
	view    bucket.View
	ticket  bucket.Ticket // of who looks, if they have one
	repaced bool          // it adopted a limit with another rate
}

// open copies a bucket and makes the copy adopt spec.
func (m *Model) open(key sluice.Key, spec *bucket.Spec, now int64) *working {
	w := m.openAsIs(key, spec, now)
	if w.spec.Limit != spec.Limit {
		spec.Adopt(&w.state, w.spec, now)
		w.repaced = spec.Repaces(w.spec)
		w.spec = spec
		w.look()
	}
	return w
}

// openAsIs copies a bucket with the limit it has, or makes a new one under
// spec if it is absent.
func (m *Model) openAsIs(key sluice.Key, spec *bucket.Spec, now int64) *working {
	w := &working{key: key, now: now, entry: entry{spec: spec}}
	if e := m.buckets[key]; e != nil && !e.absent(now) {
		w.entry = e.clone()
	}
	w.look()
	return w
}

func (m *Model) write(w *working) {
	e := w.clone()
	m.buckets[w.key] = &e
}

func (w *working) look() {
	w.view = w.spec.View(&w.state, w.now)
	if w.ticket.ID != (sluice.HoldID{}) {
		w.spec.Stand(&w.state, &w.view, w.ticket.ID, w.ticket.Rank-w.view.Now)
	}
}

// consume takes amount unconditionally and answers what was consumed, which
// only the cap on debt makes less. A holder boards instead.
func (w *working) consume(amount int64, f bucket.Holder) int64 {
	if w.spec.Limit.Algorithm == sluice.Concurrency {
		w.spec.Board(&w.state, w.view, f)
	} else {
		amount = w.spec.Take(&w.state, w.view, amount)
	}
	w.look()
	return amount
}

// refund gives back what was taken at or after since. All of it counts as
// refunded; what came back is the answer.
func (w *working) refund(r *sluice.Result, amount, since int64) {
	r.Consumed = sluice.Thousandths(-amount)
	r.Returned = sluice.Thousandths(w.spec.Refund(&w.state, w.view, amount, since))
	w.look()
}

// fill writes what the bucket is like into r.
func (w *working) fill(r *sluice.Result) {
	r.Remaining = sluice.Thousandths(w.view.Remaining())
	r.Free = sluice.Thousandths(w.view.Free())
	r.ResetAfter = duration(w.spec.ResetIn(&w.state, w.view))
}

// absent reports whether there might as well be no entry.
func (e *entry) absent(now int64) bool {
	v := e.spec.View(&e.state, now)
	return v.Idle() && !e.state.Recalled(v)
}

func (e *entry) clone() entry {
	c := *e
	c.state.Ext = e.state.Ext.Clone()
	return c
}

// Adjust consumes or refunds without asking. A refund is of what was taken
// last; a cost of 0 changes nothing, not even the limit.
func (m *Model) Adjust(_ context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.begin()
	if err != nil {
		return err
	}
	specs, err := compile(changes)
	if err != nil {
		return err
	}
	results, at := make([]sluice.Result, len(changes)), now
	for i := range changes {
		w := m.open(changes[i].Key, specs[i], now)
		at = max(at, w.view.Now)
		r := &results[i]
		r.Fits = true
		switch cost := changes[i].Cost.Thousandths(); {
		case cost > 0:
			r.Consumed = sluice.Thousandths(w.consume(cost, bucket.Holder{}))
			m.write(w)
		case cost < 0:
			w.refund(r, -cost, w.view.Now)
			m.write(w)
		}
		w.fill(r)
	}
	conclude(d, sluice.Decision{Allowed: true, Time: time.UnixMicro(at), Demands: changes, Results: results})
	return nil
}

// Reset makes buckets as new, under the limit they have. Leases stay open;
// there is just nothing left of them to give back.
func (m *Model) Reset(_ context.Context, keys []sluice.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.begin()
	if err != nil {
		return err
	}
	for _, k := range keys {
		if e := m.buckets[k]; e != nil {
			w := m.openAsIs(k, e.spec, now)
			w.spec.Reset(&w.state, w.view)
			m.write(w)
		}
	}
	return nil
}

// conclude makes d say what answer says, reusing d's results.
func conclude(d *sluice.Decision, answer sluice.Decision) {
	answer.Source = sluice.FromStore
	answer.Results = append(d.Results[:0], answer.Results...)
	*d = answer
	d.Conclude()
}

func compile(demands []sluice.Demand) ([]*bucket.Spec, error) {
	specs := make([]*bucket.Spec, len(demands))
	for i := range demands {
		spec, err := bucket.Compile(demands[i].Limit)
		if err != nil {
			return nil, err
		}
		specs[i] = spec
	}
	return specs, nil
}

// duration turns the arithmetic's microseconds into what answers say.
func duration(micros int64) time.Duration {
	if micros == bucket.Never {
		return sluice.Never
	}
	return time.Duration(micros) * time.Microsecond
}
