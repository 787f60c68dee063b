package limitstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/dynamodb"
)

// Hold grants tokens in advance. The requests of one item are written together.
func (s *Store) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	specs := make([]*bucket.Spec, len(requests))
	for i := range requests {
		if specs[i], err = bucket.Compile(requests[i].Limit); err != nil {
			return err
		}
	}
	return s.each(ctx, len(requests), func(i int) *sluice.Key { return &requests[i].Key }, func(c *change, i int) error {
		return c.hold(&requests[i], specs[i], &grants[i])
	})
}

// each changes items side by side: those of the keys of n things, of which those of
// the same item are done one after the other in one write. If some items are written
// and others are not, the outcome is unknown.
func (s *Store) each(ctx context.Context, n int, key func(int) *sluice.Key, do func(*change, int) error) error {
	of := map[subject][]int{}
	for i := range n {
		sub := subjectOf(key(i))
		of[sub] = append(of[sub], i)
	}
	var mu sync.Mutex
	var group sync.WaitGroup
	var failed error
	done := 0
	for sub, all := range of {
		run := func() {
			err := s.change(ctx, []subject{sub}, "", func(c *change) error {
				for _, i := range all {
					if err := do(c, i); err != nil {
						return err
					}
				}
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			}
			failed = errors.Join(failed, err)
		}
		if len(of) == 1 {
			run()
			break
		}
		group.Go(run)
	}
	group.Wait()
	if failed != nil && done > 0 && !errors.Is(failed, sluice.ErrUnknown) {
		return fmt.Errorf("dynamodb: %w: %d of %d items were written: %v", sluice.ErrUnknown, done, len(of), failed)
	}
	return failed
}

func (c *change) hold(q *sluice.HoldRequest, spec *bucket.Spec, g *sluice.Grant) error {
	if q.Previous != (sluice.HoldID{}) {
		if err := c.giveBack(&q.Key, q.Previous, q.Spent.Thousandths()); err != nil {
			return err
		}
	}
	p, err := c.item(&q.Key).open(&q.Key, spec, c.now)
	if err != nil {
		return err
	}
	least := max(q.Min.Thousandths(), 1)
	*g = sluice.Grant{Now: time.UnixMicro(p.view.Now), Recalled: p.state.Recalled(p.view)}
	if n := p.spec.Grantable(&p.state, p.view, least, q.Max.Thousandths()); n > 0 {
		h := bucket.Hold{ID: q.ID, Amount: n, Expires: p.view.Now + q.TTL.Microseconds()}
		g.Amount = sluice.Thousandths(n)
		g.Expires = time.UnixMicro(p.spec.Hold(&p.state, p.view, h))
		p.changed = true
		p.look()
	} else {
		g.Held = p.spec.Holdable() && p.view.ForHeld(least)
		g.RetryIn = duration(p.spec.HoldableIn(&p.state, p.view, least))
	}
	g.Remaining, g.Free = sluice.Thousandths(p.view.Remaining()), sluice.Thousandths(p.view.Free())
	p.keep()
	return nil
}

// Return closes holds and removes tickets.
func (s *Store) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	ctx, cancel, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return s.each(ctx, len(returns), func(i int) *sluice.Key { return &returns[i].Key }, func(c *change, i int) error {
		r := &returns[i]
		return c.giveBack(&r.Key, r.ID, r.Spent.Thousandths())
	})
}

// giveBack closes a hold or removes a ticket, under the limit that the bucket has.
func (c *change) giveBack(k *sluice.Key, id sluice.HoldID, spent int64) error {
	it := c.item(k)
	if !it.has(k.Limit) {
		return nil
	}
	p, err := it.openAsIs(k, it.records[k.Limit].spec, c.now)
	if err != nil {
		return err
	}
	p.changed = p.spec.Leave(&p.state, p.view, id) || p.spec.Return(&p.state, p.view, id, spent)
	p.keep()
	if p.changed {
		c.room = append(c.room, *k)
	}
	return nil
}

func keysOf(keys ...dynamodb.Key) []dynamodb.Key { return keys }
