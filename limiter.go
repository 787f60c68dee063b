package sluice

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Limiter is the front of a [Store]: it checks what it is asked, keeps
// waiting callers in line and tells the [Observer]. It is safe for concurrent
// use. The package comment contrasts its verbs.
type Limiter struct {
	store    Store
	observer Observer
	node     uint64 // of its tickets
	tickets  atomic.Uint64
	lines    lines
	watching sync.Once
}

// Option configures a [Limiter].
type Option func(*Limiter)

// WithObserver reports to o everything the limiter decides.
func WithObserver(o Observer) Option { return func(l *Limiter) { l.observer = o } }

// WithNode sets the number that tells this limiter's tickets from those of
// others, for tests that must be repeatable. It must not be 0. By default it is
// drawn at random.
func WithNode(node uint64) Option { return func(l *Limiter) { l.node = node } }

// New returns a limiter on a store. It does not close the store.
func New(store Store, options ...Option) *Limiter {
	l := &Limiter{store: store, node: rand.Uint64() | 1}
	for _, o := range options {
		o(l)
	}
	return l
}

// Take consumes all demands or none, at once.
func (l *Limiter) Take(ctx context.Context, demands ...Demand) (Decision, error) {
	var d Decision
	err := l.Decide(ctx, &Take{Demands: demands}, &d)
	return d, err
}

// TakeUpTo consumes as much of the cost as there is, in whole tokens, from
// all demands alike: Decision.Granted. It refuses if that is nothing. All
// demands need the same cost.
func (l *Limiter) TakeUpTo(ctx context.Context, demands ...Demand) (Decision, error) {
	var d Decision
	err := l.Decide(ctx, &Take{Demands: demands, UpTo: true}, &d)
	return d, err
}

// Peek returns what Take would, and consumes nothing.
func (l *Limiter) Peek(ctx context.Context, demands ...Demand) (Decision, error) {
	var d Decision
	err := l.Decide(ctx, &Take{Demands: demands, Peek: true}, &d)
	return d, err
}

// Decide decides any take into d, without allocating if d was used before.
// It is what the shorter verbs call: use it for their options together, or
// where every nanosecond counts. It fills in t.ID and t.Keep.
func (l *Limiter) Decide(ctx context.Context, t *Take, d *Decision) error {
	if err := t.normalize(); err != nil {
		return err
	}
	if l.observer == nil {
		return l.store.Take(ctx, t, d)
	}
	start := time.Now()
	err := l.store.Take(ctx, t, d)
	l.decided(t, d, err, time.Since(start))
	return err
}

// decided tells the observer of a decision.
func (l *Limiter) decided(t *Take, d *Decision, err error, took time.Duration) {
	if l.observer != nil && !t.Peek {
		if err == nil && d.Repeated { // its buckets are those of the first time
			first := *t
			first.Demands, t = d.Demands, &first
		}
		l.observer.Decided(t, d, err, took)
		l.consumed(d, err, true)
	}
}

// Adjust consumes each demand's cost unconditionally, or refunds it where it
// is negative. Buckets are filled at most; consuming may leave a debt, which
// refill repays. A cost of 0 changes nothing. Concurrency limits are adjusted
// by their lease alone.
func (l *Limiter) Adjust(ctx context.Context, changes ...Demand) (Decision, error) {
	var d Decision
	if len(changes) == 0 || len(changes) > MaxDemands {
		return d, badField("adjust.changes", len(changes), fmt.Sprintf("must be 1 to %d", MaxDemands))
	}
	for i := range changes {
		c := &changes[i]
		field := fmt.Sprintf("adjust.changes[%d]", i)
		if c.Cost.Thousandths() < -MaxThousandths || c.Cost.Thousandths() > MaxThousandths {
			return d, badField(field+".cost", c.Cost, "must be between -"+maxAmount.String()+" and "+maxAmount.String())
		}
		if c.Limit.Algorithm == Concurrency {
			return d, badField(field+".limit", c.Limit, "a concurrency limit is adjusted by its lease")
		}
		if err := c.Key.validate(); err != nil {
			return d, fmt.Errorf("%s.%w", field, err)
		}
		if slices.ContainsFunc(changes[:i], func(e Demand) bool { return e.Key == c.Key }) {
			return d, badField(field+".key", c.Key, "names the same bucket twice")
		}
	}
	err := l.store.Adjust(ctx, changes, &d)
	l.consumed(&d, err, false)
	l.lines.wakeAll(&d)
	return d, err
}

// Reset refills buckets as if they were new. What nodes hold ahead of need
// stays held, and waiting callers keep waiting.
func (l *Limiter) Reset(ctx context.Context, keys ...Key) error {
	if len(keys) > MaxDemands {
		return badField("reset.keys", len(keys), fmt.Sprintf("must be at most %d", MaxDemands))
	}
	for i := range keys {
		if err := keys[i].validate(); err != nil {
			return fmt.Errorf("reset.keys[%d]: %w", i, err)
		}
	}
	if err := l.store.Reset(ctx, keys); err != nil {
		return err
	}
	for _, k := range keys {
		l.lines.wake(k)
	}
	return nil
}

// List finds the buckets of an entity or a resource that are in use.
func (l *Limiter) List(ctx context.Context, q Query) (Page, error) {
	if err := q.Normalize(); err != nil {
		return Page{}, err
	}
	return l.store.List(ctx, q)
}

// Forget removes leases, request ids and full buckets, as [Store.Forget] does.
func (l *Limiter) Forget(ctx context.Context, f Forgetting) (next string, err error) {
	return l.store.Forget(ctx, f)
}

// consumed tells the observer what d changed.
func (l *Limiter) consumed(d *Decision, err error, take bool) {
	if l.observer == nil || err != nil || d.Repeated {
		return
	}
	c := Consumption{Taken: d.Time, Take: take}
	if !d.Taken.IsZero() {
		c.Taken = d.Taken
	}
	for i := range d.Results {
		if c.Amount = d.Results[i].Consumed; c.Amount.Thousandths() != 0 {
			if d.Source < Degraded {
				c.Result = &d.Results[i]
			}
			l.observer.Consumed(d.Demands[i].Key, d.Demands[i].Limit, c)
		}
	}
}
