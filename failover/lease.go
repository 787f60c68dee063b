package failover

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// leases are what was charged under each lease given locally. That they
// exist, live, end and refund is the local store's business; but what they
// cost is named by limits that only the caller's demands know.
type leases struct {
	most     int
	mu       sync.Mutex
	byID     map[string]*lease
	unlisted atomic.Int64
}

type lease struct {
	demands []sluice.Demand
	charges []int64
	taken   time.Time
	expires time.Time
	unknown bool // the store may have granted it, too
}

// add remembers what an allowed take charged. Beyond the bound it does not:
// such a lease can be settled all the same, but reports no amounts.
func (ls *leases) add(t *sluice.Take, d *sluice.Decision) {
	le := &lease{
		demands: slices.Clone(d.Demands),
		charges: make([]int64, len(d.Results)),
		taken:   d.Time,
		expires: time.Now().Add(t.Keep),
		unknown: d.Source == sluice.Unknown,
	}
	for i := range d.Results {
		le.charges[i] = d.Results[i].Consumed.Thousandths()
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.sweep(4)
	if len(ls.byID) >= ls.most {
		delete(ls.byID, t.ID) // an expired one
		ls.unlisted.Add(1)
		return
	}
	if ls.byID == nil {
		ls.byID = map[string]*lease{}
	}
	ls.byID[t.ID] = le
}

// sweep forgets those of the next few leases that have expired.
func (ls *leases) sweep(n int) {
	now := time.Now()
	for id, le := range ls.byID {
		if now.After(le.expires) {
			delete(ls.byID, id)
		}
		if n--; n == 0 {
			break
		}
	}
}

// open is how many have not expired. If there are none, their memory is given
// back.
func (ls *leases) open() int64 {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.sweep(len(ls.byID))
	if len(ls.byID) == 0 {
		ls.byID = nil
	}
	return int64(len(ls.byID))
}

// mayBeStored reports whether the store may have granted a lease that was given
// locally, because it had not answered.
func (ls *leases) mayBeStored(id string) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	le := ls.byID[id]
	return le != nil && le.unknown
}

// passOn settles a lease in the store as it was settled locally, and tries again
// after some pauses if the store cannot be asked.
func (s *Store) passOn(st sluice.Settlement, again ...time.Duration) {
	c, err := s.beginFor(context.Background(), st.ID)
	if err == nil {
		var d sluice.Decision
		_, err = c.end(s.inner.Settle(c.ctx, &st, &d))
	}
	if errors.Is(err, sluice.ErrUnavailable) && len(again) > 0 {
		time.AfterFunc(again[0], func() { s.passOn(st, again[1:]...) })
	}
}

// settle changes or closes a lease given locally, or answers
// [sluice.ErrLeaseClosed].
func (s *Store) settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	ls := &s.leases
	ls.mu.Lock()
	defer ls.mu.Unlock()
	le := ls.byID[st.ID]
	if le != nil && time.Now().After(le.expires) {
		le = nil
	}
	var costs []int64
	if le != nil {
		var err error
		if costs, err = le.costs(st); err != nil {
			return err
		}
	}
	bare := sluice.Settlement{ID: st.ID, Action: st.Action, Keep: st.Keep}
	err := s.local.Settle(ctx, &bare, d)
	if errors.Is(err, sluice.ErrLeaseClosed) {
		delete(ls.byID, st.ID)
	}
	if err != nil {
		return err
	}
	d.Source = sluice.Degraded
	if le == nil { // not listed, or settled already
		d.Demands, d.Results = nil, d.Results[:0]
		return nil
	}
	d.Demands, d.Taken = slices.Clone(le.demands), le.taken
	d.Results = slices.Grow(d.Results[:0], len(le.demands))[:len(le.demands)]
	for i := range d.Results {
		r := &d.Results[i]
		*r = sluice.Result{Fits: true, Consumed: sluice.Thousandths(costs[i] - le.charges[i]), Unknown: true}
		le.charges[i], d.Demands[i].Cost = costs[i], sluice.Thousandths(costs[i])
	}
	switch st.Action {
	case sluice.Renew:
		le.expires = time.Now().Add(st.Keep)
	case sluice.Commit, sluice.Release:
		delete(ls.byID, st.ID)
	}
	d.Conclude()
	return nil
}

// costs is what the lease is to cost in each of its demands. The local quota
// counted a request and does not follow: only a release gives it back.
func (le *lease) costs(st *sluice.Settlement) ([]int64, error) {
	costs := slices.Clone(le.charges)
	for _, c := range st.Costs {
		found := false
		for i := range le.demands {
			if dm := &le.demands[i]; dm.Key.Limit == c.Limit {
				found = true
				if dm.Shadow {
					continue // it took nothing, so there is nothing to change
				}
				if dm.Limit.Algorithm == sluice.Concurrency && c.Cost.Thousandths() != le.charges[i] {
					return nil, bucket.LeaseCostError(c.Limit, true)
				}
				costs[i] = c.Cost.Thousandths()
			}
		}
		if !found {
			return nil, bucket.LeaseCostError(c.Limit, false)
		}
	}
	for i := range costs {
		ends := st.Action == sluice.Commit || st.Action == sluice.Release
		if st.Action == sluice.Release || ends && le.demands[i].Limit.Algorithm == sluice.Concurrency {
			costs[i] = 0
		}
	}
	return costs, nil
}
