package storetest

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Hold grants tokens in advance, one request after the other. A previous hold
// is closed even if nothing is granted in its place. RetryIn is 0 with a
// grant; without one it is when there could be one: when at least Min, or
// anything if Min is 0, is available, the recall has lapsed and the bucket
// has room for one more hold. Limits that cannot be held answer Never.
// Recalled and Held say why, as of after the previous hold was closed.
func (m *Model) Hold(_ context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.begin()
	if err != nil {
		return err
	}
	specs := make([]*bucket.Spec, len(requests))
	for i := range requests {
		if specs[i], err = bucket.Compile(requests[i].Limit); err != nil {
			return err
		}
	}
	for i := range requests {
		grants[i] = m.hold(&requests[i], specs[i], now)
	}
	return nil
}

func (m *Model) hold(q *sluice.HoldRequest, spec *bucket.Spec, now int64) sluice.Grant {
	if q.Previous != (sluice.HoldID{}) {
		m.close(q.Key, q.Previous, q.Spent.Thousandths(), now)
	}
	w := m.open(q.Key, spec, now)
	g := sluice.Grant{Now: time.UnixMicro(w.view.Now), Recalled: w.state.Recalled(w.view)}
	least := max(q.Min.Thousandths(), 1)
	if amount := spec.Grantable(&w.state, w.view, least, q.Max.Thousandths()); amount > 0 {
		expires := spec.Hold(&w.state, w.view, bucket.Hold{
			ID: q.ID, Amount: amount, Expires: w.view.Now + q.TTL.Microseconds(),
		})
		w.look()
		m.write(w)
		g.Amount, g.Expires = sluice.Thousandths(amount), time.UnixMicro(expires)
	} else {
		g.RetryIn = duration(spec.HoldableIn(&w.state, w.view, least))
		g.Held = spec.Holdable() && w.view.ForHeld(least)
	}
	g.Remaining, g.Free = sluice.Thousandths(w.view.Remaining()), sluice.Thousandths(w.view.Free())
	return g
}

// Return closes holds and removes tickets, each as if alone.
func (m *Model) Return(_ context.Context, returns []sluice.HoldReturn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.begin()
	if err != nil {
		return err
	}
	for i := range returns {
		m.close(returns[i].Key, returns[i].ID, returns[i].Spent.Thousandths(), now)
	}
	return nil
}

// close ends a hold of which spent was used. One that is unknown or expired
// is ignored: what is not returned in time counts as spent already.
func (m *Model) close(key sluice.Key, id sluice.HoldID, spent int64, now int64) {
	e := m.buckets[key]
	if e == nil {
		return
	}
	w := m.openAsIs(key, e.spec, now)
	if w.spec.Leave(&w.state, w.view, id) || w.spec.Return(&w.state, w.view, id, spent) {
		m.write(w)
	}
}
