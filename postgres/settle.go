package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
)

// Statuses of settle_v1.
const (
	settled = iota
	leaseClosed
	noSuchLimit
	fixedCost
	_
	settleLost
)

// lease is what settle_v1 answers.
type lease struct {
	now, latest                  int64
	status                       int16
	culprit                      *string
	namespaces, entities         []string
	resources, names             []string
	algorithms, calendars, flags []int16
	amounts, periods, bursts     []int64
	zones                        []string
	asked                        []int64
	consumed, remaining, resets  []int64
	freed                        []bool
}

// Settle changes or closes a lease.
func (s *Store) Settle(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	var (
		a      lease
		limits []string
		costs  []int64
		bounds []int64
	)
	for _, c := range st.Costs {
		limits, costs = append(limits, text(c.Limit)), append(costs, int64(c.Cost))
	}
	for try := 0; ; try++ {
		err := s.call(ctx, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, s.sql.settle,
				s.given(), s.patience, text(st.ID), int16(st.Action), st.Keep.Microseconds(), limits, costs, bounds,
			).Scan(&a.now, &a.status, &a.culprit, &a.latest,
				&a.namespaces, &a.entities, &a.resources, &a.names,
				&a.algorithms, &a.amounts, &a.periods, &a.bursts, &a.calendars, &a.zones, &a.asked, &a.flags,
				&a.consumed, &a.remaining, &a.resets, &a.freed)
		})
		if err != nil {
			return err
		}
		s.saw(a.now)
		switch a.status {
		case leaseClosed:
			return fmt.Errorf("lease %q: %w", st.ID, sluice.ErrLeaseClosed)
		case noSuchLimit:
			return &sluice.FieldError{Field: "lease.costs", Value: untext(*a.culprit), Reason: "the lease has no limit of this name"}
		case fixedCost:
			return &sluice.FieldError{Field: "lease.costs", Value: untext(*a.culprit), Reason: "a place in flight cannot be adjusted, only freed"}
		case settleLost:
			if try == maxTries {
				return errUnavailable(errDrift)
			}
			if bounds, err = s.leaseWindows(&a); err != nil {
				return err
			}
			continue
		}
		s.settle(st, &a, d)
		return nil
	}
}

// settle fills in the decision.
func (s *Store) settle(st *sluice.Settlement, a *lease, d *sluice.Decision) {
	demands := make([]sluice.Demand, len(a.names))
	results := d.Results[:0]
	for i := range demands {
		demands[i] = a.demand(i)
		results = append(results, sluice.Result{
			Fits:       true,
			Consumed:   sluice.Tokens(a.consumed[i]),
			Remaining:  sluice.Tokens(a.remaining[i]),
			ResetAfter: duration(a.resets[i]),
		})
		s.marks.setTight(s.marks.hashOf(&demands[i].Key), a.remaining[i] <= 0)
		if a.freed[i] {
			s.watch.made(demands[i].Key)
		}
	}
	*d = sluice.Decision{
		Allowed: true, ID: st.ID, Source: sluice.FromStore, Time: time.UnixMicro(a.latest), Demands: demands, Results: results,
	}
	d.Conclude()
}

// demand is a bucket of the lease, with the limit it has now.
func (a *lease) demand(i int) sluice.Demand {
	k := rowKey{a.namespaces[i], a.entities[i], a.resources[i], a.names[i]}
	d := sluice.Demand{Key: k.key(), Limit: a.limit(i), Cost: sluice.Tokens(a.asked[i])}
	setFlags(&d, a.flags[i])
	return d
}

func (a *lease) limit(i int) sluice.Limit {
	return limitOf(a.algorithms[i], a.amounts[i], a.periods[i], a.bursts[i], a.calendars[i], a.zones[i])
}

// leaseWindows are the calendar windows of the lease's limits, around the
// database's time.
func (s *Store) leaseWindows(a *lease) ([]int64, error) {
	bounds := make([]int64, windowNumbers*len(a.names))
	for i := range a.names {
		l := a.limit(i)
		if l.Calendar == sluice.NoCalendar {
			continue
		}
		spec, err := s.specs.compile(&l)
		if err != nil {
			return nil, err
		}
		w := windows(spec, a.now, a.latest)
		copy(bounds[windowNumbers*i:], w[:])
	}
	return bounds, nil
}

func limitOf(algorithm int16, amount, period, burst int64, calendar int16, zone string) sluice.Limit {
	return sluice.Limit{
		Algorithm: sluice.Algorithm(algorithm),
		Amount:    sluice.Tokens(amount),
		Period:    time.Duration(period) * time.Microsecond,
		Burst:     sluice.Tokens(burst),
		Calendar:  sluice.Calendar(calendar),
		Zone:      zone,
	}
}
