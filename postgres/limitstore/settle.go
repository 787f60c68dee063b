package limitstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/postgres"
)

// Statuses of settle_v3.
const (
	settled = iota
	leaseClosed
	noSuchLimit
	unchangeable
	_
	settleLost
)

// Settle changes or closes a lease. Settlements go together in batches, as
// takes do: what takes a bucket that everybody wants must be able to return to
// it as fast.
func (s *Store) Settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	r := requests.Get().(*request)
	*r = request{
		kind: settlement, id: st.ID, settle: *st, answered: r.answered,
		take: r.take, specs: r.specs, keys: r.keys, hashes: r.hashes[:0], // to be used again
	}
	r.settle.Costs = slices.Clone(st.Costs)
	if err := s.settlements.do(ctx, r); err != nil {
		return err
	}
	defer requests.Put(r)
	if r.err != nil {
		return r.err
	}
	results := append(d.Results[:0], r.decision.Results...)
	*d = r.decision
	d.Results = results
	d.Conclude()
	return nil
}

// leases is what settle_v3 answers.
type leases struct {
	now                          int64
	statuses                     []int16
	culprits                     []string
	times, takens                []int64
	counts                       []int32
	namespaces, entities         []string
	resources, names             []string
	algorithms, calendars, flags []int16
	amounts, periods, bursts     []int64
	zones                        []string
	charged                      []int64
	consumed, returned           []int64
	remaining, frees, resets     []int64
	freed                        []bool
}

// sendSettlements has a batch of leases settled.
func (s *Store) sendSettlements(b *batch) {
	var (
		a            leases
		ids, limits  []string
		actions      []int16
		keeps, costs []int64
		counts       []int32
		bounds       []int64
	)
	for _, r := range b.requests {
		st := &r.settle
		ids, actions = append(ids, postgres.Text(st.ID)), append(actions, int16(st.Action))
		keeps, counts = append(keeps, st.Keep.Microseconds()), append(counts, int32(len(st.Costs)))
		for _, c := range st.Costs {
			limits, costs = append(limits, postgres.Text(c.Limit)), append(costs, c.Cost.Thousandths())
		}
		bounds = r.bounds // one that has any is alone
	}
	err := s.call(s.db.Life(), &a.now, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, s.sql.settle,
			s.db.Given(), s.db.Patience(), ids, actions, keeps, counts, limits, costs, bounds,
		).Scan(&a.now, &a.statuses, &a.culprits, &a.times, &a.takens, &a.counts,
			&a.namespaces, &a.entities, &a.resources, &a.names,
			&a.algorithms, &a.amounts, &a.periods, &a.bursts, &a.calendars, &a.zones, &a.charged, &a.flags,
			&a.consumed, &a.returned, &a.remaining, &a.frees, &a.resets, &a.freed)
	})
	if err != nil {
		b.fail(err)
		return
	}
	last := 0
	for i, r := range b.requests {
		first := last
		last += int(a.counts[i])
		switch a.statuses[i] {
		case settled:
			s.answerSettled(r, &a, i, first, last)
		case leaseClosed:
			r.answer(fmt.Errorf("lease %q: %w", r.id, sluice.ErrLeaseClosed))
		case noSuchLimit:
			r.answer(bucket.LeaseCostError(postgres.Untext(a.culprits[i]), false))
		case unchangeable:
			r.answer(bucket.LeaseCostError(postgres.Untext(a.culprits[i]), true))
		case settleLost:
			s.settleAgain(r, &a, i, first, last)
		}
	}
}

// answerSettled fills in the decision from the demands first to last.
func (s *Store) answerSettled(r *request, a *leases, i, first, last int) {
	d := &r.decision
	*d = sluice.Decision{
		Allowed: true, ID: r.id, Source: sluice.FromStore,
		Time: time.UnixMicro(a.times[i]), Taken: time.UnixMicro(a.takens[i]),
	}
	for n := first; n < last; n++ {
		demand := a.demand(n)
		d.Demands = append(d.Demands, demand)
		d.Results = append(d.Results, sluice.Result{
			Fits:       true,
			Consumed:   sluice.Thousandths(a.consumed[n]),
			Returned:   sluice.Thousandths(a.returned[n]),
			Remaining:  sluice.Thousandths(a.remaining[n]),
			Free:       sluice.Thousandths(a.frees[n]),
			ResetAfter: duration(a.resets[n]),
		})
		s.marks.setTight(s.marks.hashOf(&demand.Key), a.frees[n] <= 0)
		if a.freed[n] {
			s.watch.made(demand.Key)
		}
	}
	r.answer(nil)
}

// settleAgain sends r with the calendar windows of its limits, around the
// database's time.
func (s *Store) settleAgain(r *request, a *leases, i, first, last int) {
	if r.tries++; r.tries > maxTries {
		r.answer(postgres.UnavailableError(errDrift))
		return
	}
	r.bounds = make([]int64, windowNumbers*(last-first))
	for n := first; n < last; n++ {
		l := a.limit(n)
		if l.Calendar == sluice.NoCalendar {
			continue
		}
		spec, err := s.specs.compile(&l)
		if err != nil {
			r.answer(err)
			return
		}
		w := windows(spec, a.now, a.times[i])
		copy(r.bounds[windowNumbers*(n-first):], w[:])
	}
	s.settlements.resubmit(r)
}

// demand is a bucket of a lease, with the limit it has now.
func (a *leases) demand(n int) sluice.Demand {
	k := rowKey{a.namespaces[n], a.entities[n], a.resources[n], a.names[n]}
	d := sluice.Demand{Key: k.key(), Limit: a.limit(n), Cost: sluice.Thousandths(a.charged[n])}
	setFlags(&d, a.flags[n])
	return d
}

func (a *leases) limit(n int) sluice.Limit {
	return limitOf(a.algorithms[n], a.amounts[n], a.periods[n], a.bursts[n], a.calendars[n], a.zones[n])
}

func limitOf(algorithm int16, amount, period, burst int64, calendar int16, zone string) sluice.Limit {
	return sluice.Limit{
		Algorithm: sluice.Algorithm(algorithm),
		Amount:    sluice.Thousandths(amount),
		Period:    time.Duration(period) * time.Microsecond,
		Burst:     sluice.Thousandths(burst),
		Calendar:  sluice.Calendar(calendar),
		Zone:      zone,
	}
}
