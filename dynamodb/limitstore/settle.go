package limitstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Adjust consumes or refunds unconditionally.
func (s *Store) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	specs, err := compile(changes)
	if err != nil {
		return err
	}
	return s.change(ctx, subjects(changes), "", func(c *change) error {
		places := make([]place, len(changes))
		for i := range changes {
			k := &changes[i].Key
			if places[i], err = c.item(k).open(k, specs[i], c.now); err != nil {
				return err
			}
		}
		c.answer(d, changes, places)
		for i := range places {
			p := &places[i]
			consumed, returned := p.adjust(changes[i].Cost.Thousandths(), p.view.Now)
			p.report(&d.Results[i], consumed, returned)
			p.keep()
			if returned > 0 {
				c.room = append(c.room, *p.key)
			}
		}
		d.Conclude()
		return nil
	})
}

// answer prepares a decision that cannot be a refusal.
func (c *change) answer(d *sluice.Decision, demands []sluice.Demand, places []place) {
	at := c.now
	for i := range places {
		at = max(at, places[i].view.Now)
	}
	results := slices.Grow(d.Results[:0], len(demands))[:len(demands)]
	*d = sluice.Decision{Allowed: true, Source: sluice.FromStore, Time: time.UnixMicro(at), Demands: demands, Results: results}
}

// Settle changes or closes a lease. Which buckets it is about is in its receipt,
// which never names others.
func (s *Store) Settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	seen := images{}
	key := receiptKey(st.ID)
	for {
		if err := s.read(ctx, keysOf(key), seen); err != nil {
			return err
		}
		r, err := readReceipt(st.ID, seen[key]).valid(s.now())
		if err != nil {
			return err
		}
		if r == nil {
			return closed(st)
		}
		again := false
		err = s.change(ctx, subjects(r.demands), st.ID, func(c *change) error {
			now, err := c.receipt.valid(c.now)
			switch {
			case err != nil:
				return err
			case now == nil:
				return closed(st)
			case again || !sameKeys(now.demands, r.demands):
				again = true // it is another lease of the same id now
				return nil
			}
			return c.settle(st, d)
		})
		if err != nil || !again {
			return err
		}
		clear(seen)
	}
}

func sameKeys(a, b []sluice.Demand) bool {
	return slices.EqualFunc(a, b, func(a, b sluice.Demand) bool { return a.Key == b.Key })
}

func closed(st *sluice.Settlement) error {
	return fmt.Errorf("lease %q: %w", st.ID, sluice.ErrLeaseClosed)
}

func (c *change) settle(st *sluice.Settlement, d *sluice.Decision) error {
	r := c.receipt.receipt
	if !r.lease || r.closed != sluice.Adjust && r.closed != st.Action {
		return closed(st)
	}
	costs := r.charges
	again := r.closed != sluice.Adjust
	if !again {
		var err error
		if costs, err = r.costs(st); err != nil {
			return err
		}
	}
	demands, places, err := c.reopen(r.demands)
	if err != nil {
		return err
	}
	c.answer(d, demands, places)
	d.ID, d.Taken = st.ID, time.UnixMicro(r.taken)
	expires := r.expires
	if st.Action == sluice.Renew {
		expires = d.Time.UnixMicro() + max(st.Keep.Microseconds(), 1)
	}
	for i := range places {
		p, change := &places[i], costs[i]-r.charges[i]
		demands[i].Cost = sluice.Thousandths(costs[i])
		consumed, returned := int64(0), int64(0)
		flies, flew := p.spec.Limit.Algorithm == sluice.Concurrency, r.demands[i].Limit.Algorithm == sluice.Concurrency
		switch {
		case again, r.results[i].Consumed.Thousandths() == 0, flew && !flies:
		case flies && !flew:
			consumed = change // the bucket was started anew; nothing of the lease is in it
		case flies:
			returned = p.settleHolder(st, expires)
			consumed = -returned
		default:
			consumed, returned = p.adjust(change, r.taken)
		}
		p.report(&d.Results[i], consumed, returned)
		p.keep()
		if returned > 0 || flies && p.changed && st.Action != sluice.Renew {
			c.room = append(c.room, *p.key)
		}
	}
	d.Conclude()
	if again {
		return nil
	}
	after := *r
	after.charges, after.expires = costs, expires
	if st.Action == sluice.Commit || st.Action == sluice.Release {
		after.closed = st.Action
	}
	c.receipt.keep(&after)
	return nil
}

// reopen opens the buckets of a lease under the limits that they have.
func (c *change) reopen(taken []sluice.Demand) ([]sluice.Demand, []place, error) {
	demands, places := slices.Clone(taken), make([]place, len(taken))
	specs, err := compile(demands)
	if err != nil {
		return nil, nil, err
	}
	for i := range demands {
		k := &demands[i].Key
		if places[i], err = c.item(k).openAsIs(k, specs[i], c.now); err != nil {
			return nil, nil, err
		}
		demands[i].Limit = places[i].spec.Limit
	}
	return demands, places, nil
}

// costs is what the lease is to cost in each of its buckets.
func (r *receipt) costs(st *sluice.Settlement) ([]int64, error) {
	costs := slices.Clone(r.charges)
	for _, c := range st.Costs {
		found := false
		for i := range r.demands {
			dm := &r.demands[i]
			if dm.Key.Limit != c.Limit {
				continue
			}
			found = true
			if dm.Limit.Algorithm == sluice.Concurrency && c.Cost.Thousandths() != r.charges[i] {
				return nil, bucket.LeaseCostError(c.Limit, true)
			}
			if r.results[i].Consumed.Thousandths() > 0 {
				costs[i] = c.Cost.Thousandths()
			}
		}
		if !found {
			return nil, bucket.LeaseCostError(c.Limit, false)
		}
	}
	if st.Action == sluice.Release {
		clear(costs)
	}
	return costs, nil
}

// settleHolder frees or extends the lease's place in a concurrency limit, and
// returns what was refunded: committing is no refund.
func (p *place) settleHolder(st *sluice.Settlement, expires int64) (freed int64) {
	switch st.Action {
	case sluice.Commit:
		p.spec.Alight(&p.state, p.view, st.ID)
	case sluice.Release:
		freed = p.spec.Alight(&p.state, p.view, st.ID)
	case sluice.Renew:
		p.spec.Extend(&p.state, p.view, st.ID, expires)
	default:
		return 0
	}
	p.changed = true
	p.look()
	return freed
}

// Reset makes buckets as new, all at once.
func (s *Store) Reset(ctx context.Context, keys []sluice.Key) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	demands := make([]sluice.Demand, len(keys))
	for i := range keys {
		demands[i].Key = keys[i]
	}
	return s.change(ctx, subjects(demands), "", func(c *change) error {
		for i := range keys {
			c.item(&keys[i]).reset(&keys[i], c.now)
			c.room = append(c.room, keys[i])
		}
		return nil
	})
}

// reset refills a bucket under the limit that it has. It also mends one that cannot
// be read.
func (it *item) reset(k *sluice.Key, now int64) {
	r := it.records[k.Limit]
	if r == nil || r.spec == nil && r.damaged == nil {
		return
	}
	it.changed = true
	r.changed = true
	if r.damaged != nil {
		*r = record{changed: true}
		return
	}
	r.spec.Reset(&r.state, r.spec.View(&r.state, now))
}
