package limitstore

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// undecided is the outcome of a take that take_plain_v2 leaves to take_v2.
const undecided = math.MinInt64

// sendPlain has a batch decided by take_plain_v2, and works out from the
// numbers that it gives what else there is to say.
func (s *Store) sendPlain(b *batch) {
	b.number()
	rules, agreed := b.bucketRules()
	if !agreed {
		for _, r := range b.requests {
			s.takeOtherWay(r)
		}
		return
	}
	for i := range b.costs {
		if b.costs[i] == 0 {
			b.costs[i] = sluice.Token
		}
	}
	sizes := b.sizes
	if len(sizes) == len(b.places) { // one demand each
		sizes = nil
	}
	b.limits.reduce()
	var (
		k, l                = &b.keys, &b.limits
		now                 int64
		outcomes, rems, ats []int64
	)
	err := s.call(s.db.Life(), &now, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, s.sql.takePlain,
			s.db.Given(), s.db.Patience(), b.glance(&s.marks),
			k.namespaces, k.entities, k.resources, k.names, rules,
			l.algorithms, l.amounts, l.periods, l.bursts, l.rates, l.pers, l.capacities,
			sizes, b.places, b.costs,
		).Scan(&now, &outcomes, &rems, &ats)
	})
	if err != nil {
		b.fail(err)
		return
	}
	demand := 0
	for _, r := range b.requests {
		first := demand
		demand += len(r.keys)
		if outcomes[first] == undecided {
			s.takeOtherWay(r)
			continue
		}
		d := &r.decision
		d.Allowed = outcomes[first] >= 0
		at := now
		for i, spec := range r.specs {
			n := first + i
			place := b.places[n] - 1
			used := outcomes[n]
			if !d.Allowed {
				used = -1 - used
			}
			state := bucket.State{Used: used, Rem: rems[place], Time: ats[place]}
			view := spec.View(&state, now)
			at = max(at, view.Now)
			result := &d.Results[i]
			if d.Allowed {
				result.Fits, result.Consumed = true, sluice.Thousandths(b.costs[n])
			} else {
				retry := spec.RetryIn(&state, view, b.costs[n])
				result.Fits, result.RetryAfter = retry == 0, duration(retry)
			}
			result.Remaining = sluice.Thousandths(view.Remaining())
			result.Free = result.Remaining
			result.ResetAfter = duration(spec.ResetIn(&state, view))
			s.marks.setTight(r.hashes[i], !result.Fits)
		}
		d.Time = time.UnixMicro(at)
		r.answer(nil)
	}
}

// bucketRules is the limit of each bucket, and whether all takes agree on it.
func (b *batch) bucketRules() (rules []int32, agreed bool) {
	rules = make([]int32, len(b.keys.names))
	for i, place := range b.places {
		rule := &rules[place-1]
		if *rule != 0 && *rule != b.rules[i] {
			return nil, false
		}
		*rule = b.rules[i]
	}
	return rules, true
}

// takeOtherWay has r decided by take_v2.
func (s *Store) takeOtherWay(r *request) {
	now := time.Now().Unix()
	for _, h := range r.hashes {
		s.marks.setUneven(h, now)
	}
	r.kind = generalTake
	s.takes.resubmit(r)
}

func duration(micros int64) time.Duration {
	if micros == bucket.Never {
		return sluice.Never
	}
	return time.Duration(micros) * time.Microsecond
}
