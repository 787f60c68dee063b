package failover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// work is what a local decision needs; it is used again.
type work struct {
	take     sluice.Take     // of the local quotas
	decision sluice.Decision // on it
	demands  []sluice.Demand
	quota    [sluice.MaxDemands]int8 // which of them is that of each demand, or:
}

const (
	passes = -1 // allowed, or a shadow: nothing to ask
	denies = -2
)

// ofQuota is the resource of the buckets of quotas, which keeps them apart from
// those of limits.
const ofQuota = "local quota"

// free is the limit of a lease that takes from no quota, so that the local
// store has something to keep.
var free = sluice.Limit{Amount: sluice.Thousandths(sluice.MaxThousandths), Period: time.Microsecond}

// decide answers t without the store.
func (s *Store) decide(t *sluice.Take, d *sluice.Decision, source sluice.Source) error {
	settings := s.settings.Load()
	quotas := settings.quotas
	q := quotas[t.Tier]
	if q == nil {
		q = quotas[""]
	}
	w := s.work.Get().(*work)
	defer s.work.Put(w)
	denied := w.plan(t, q, settings.Nodes, q.bridge)
	err := s.takeLocally(w, t, denied)
	if q.bridge > 0 && !denied && (errors.Is(err, sluice.ErrRequestMismatch) || err == nil && !w.decision.Allowed) {
		w.plan(t, q, settings.Nodes, 0)
		err = s.takeLocally(w, t, false)
	}
	if err != nil {
		return err
	}
	var retryIn time.Duration
	if denied || !w.decision.Allowed {
		retryIn = s.worst().retryIn()
	}
	w.answer(t, d, retryIn, denied)
	d.Source = source
	if t.Peek {
		return nil
	}
	if source == sluice.Unknown {
		s.unknown.Add(1)
	}
	if !d.Allowed {
		q.refused.Add(1)
		return nil
	}
	q.allowed.Add(1)
	if t.Lease && !d.Repeated {
		s.leases.add(t, d)
	}
	return nil
}

// plan finds out what each demand comes to: to be passed, to be denied, or
// one demand on the local quota for all of an entity's limits. That one costs
// as much as the cheapest of them: the quota counts requests, and so does the
// limit with the smallest cost.
//
// A limit that all callers share has no entity, and one caller's quota would be
// far too little for it. It has a local bucket of its own: this node's part. So
// has any other limit while a short outage is bridged; see [Quota].
func (w *work) plan(t *sluice.Take, q *quota, nodes func() int, bridge time.Duration) (denied bool) {
	w.demands = w.demands[:0]
	for i := range t.Demands {
		dm := &t.Demands[i]
		switch {
		case dm.Shadow || dm.OnUnavailable == sluice.Allow:
			w.quota[i] = passes
			continue
		case dm.OnUnavailable == sluice.Deny || dm.Critical:
			w.quota[i] = denies
			denied = true
			continue
		}
		var limit sluice.Limit
		alone := false
		if dm.Key.Entity == "" {
			limit, alone = part(dm.Limit, nodes())
		} else if bridge > 0 {
			limit, alone = bridged(dm.Limit, bridge, nodes())
		}
		if alone {
			w.quota[i] = int8(len(w.demands))
			w.demands = append(w.demands, sluice.Demand{Key: dm.Key, Limit: limit, Cost: dm.Charge()})
			continue
		}
		at := slices.IndexFunc(w.demands, func(have sluice.Demand) bool {
			return sameEntity(&have.Key, &dm.Key) && have.Key.Limit == q.tier && have.Key.Resource == ofQuota
		})
		if at < 0 {
			at = len(w.demands)
			w.demands = append(w.demands, sluice.Demand{
				Key:   sluice.Key{Namespace: dm.Key.Namespace, Entity: dm.Key.Entity, Resource: ofQuota, Limit: q.tier},
				Limit: q.limit,
				Cost:  dm.Charge(),
			})
		}
		w.demands[at].Cost = sluice.Thousandths(min(w.demands[at].Cost.Thousandths(), dm.Charge().Thousandths()))
		w.quota[i] = int8(at)
	}
	return denied
}

// takeLocally takes what was planned, all or nothing. If the take is denied
// anyway, it only looks.
func (s *Store) takeLocally(w *work, t *sluice.Take, denied bool) error {
	peek := t.Peek || denied
	w.take = sluice.Take{UpTo: t.UpTo, Peek: peek}
	if !peek {
		w.take.ID, w.take.Keep, w.take.Lease = t.ID, t.Keep, t.Lease
	}
	w.take.Demands = w.demands
	if len(w.demands) == 0 {
		if peek || !t.Lease {
			w.decision.Allowed, w.decision.Repeated, w.decision.Time = true, false, time.Now()
			return nil
		}
		w.take.UpTo = false
		w.take.Demands = append(w.demands, sluice.Demand{Key: sluice.Key{Limit: "free"}, Limit: free, Cost: sluice.Thousandths(1)})
	}
	ctx := context.Background() // the caller's was looked at, and this does not wait
	err := s.local.Take(ctx, &w.take, &w.decision)
	if errors.Is(err, sluice.ErrUnavailable) {
		// It keeps too many ids already. An answer is worth more than one
		// that can be repeated or settled.
		w.take.ID, w.take.Lease = "", false
		err = s.local.Take(ctx, &w.take, &w.decision)
	}
	return err
}

// answer fills in d from what the local quotas said. What they have left says
// nothing about the limits, of which only the store knows.
func (w *work) answer(t *sluice.Take, d *sluice.Decision, retryIn time.Duration, denied bool) {
	d.Allowed = w.decision.Allowed && !denied
	d.Repeated = w.decision.Repeated
	d.ID, d.Time, d.Taken, d.Demands = t.ID, w.decision.Time, time.Time{}, t.Demands
	d.Results = slices.Grow(d.Results[:0], len(t.Demands))[:len(t.Demands)]
	for i := range d.Results {
		dm, r := &t.Demands[i], &d.Results[i]
		switch at := w.quota[i]; at {
		case passes:
			*r = sluice.Result{Fits: true, Unknown: true}
		case denies:
			*r = sluice.Result{RetryAfter: retryIn, Unknown: true}
		default:
			quota := &w.decision.Results[at]
			*r = sluice.Result{Fits: quota.Fits, RetryAfter: quota.RetryAfter, Unknown: true}
			if r.RetryAfter == sluice.Never {
				r.RetryAfter = retryIn // too much for the quota, but not for the limit
			}
		}
		if !r.Fits && dm.Charge().Thousandths() > dm.Limit.Capacity().Thousandths() {
			r.RetryAfter = sluice.Never // which is known without the store
		}
		if d.Allowed && !t.Peek && !dm.Shadow {
			r.Consumed = dm.Charge()
			if w.take.UpTo && len(w.demands) > 0 {
				r.Consumed = w.decision.Granted
			}
		}
	}
	d.Conclude()
}
