package limitstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
)

// Adjust consumes or refunds unconditionally.
func (s *Store) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	keys, places := keyArgsOf(changes, func(c *sluice.Demand) *sluice.Key { return &c.Key })
	limits, err := limitArgsOf(s, changes, func(c *sluice.Demand) *sluice.Limit { return &c.Limit })
	if err != nil {
		return err
	}
	rules, costs := make([]int32, len(places)), make([]int64, len(places))
	for i := range changes {
		if changes[i].Limit.Algorithm == sluice.Concurrency {
			return fmt.Errorf("postgres store: a concurrency limit is adjusted by its lease: %w", errors.ErrUnsupported)
		}
		rules[places[i]-1], costs[places[i]-1] = limits.number(&changes[i].Limit), changes[i].Cost.Thousandths()
	}
	var (
		now, latest        int64
		isLost             bool
		consumed, returned []int64
		remaining, frees   []int64
		resets             []int64
	)
	err = s.withWindows(limits, func() (bool, int64, error) {
		err := s.call(ctx, &now, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, s.sql.adjust,
				s.db.Given(), s.db.Patience(),
				keys.namespaces, keys.entities, keys.resources, keys.names,
				limits.algorithms, limits.amounts, limits.periods, limits.bursts, limits.calendars, limits.zones, limits.bounds,
				rules, costs,
			).Scan(&now, &isLost, &latest, &consumed, &returned, &remaining, &frees, &resets)
		})
		return isLost, latest, err
	})
	if err != nil {
		return err
	}
	results := d.Results[:0]
	for i := range changes {
		n := places[i] - 1
		results = append(results, sluice.Result{
			Fits:       true,
			Consumed:   sluice.Thousandths(consumed[n]),
			Returned:   sluice.Thousandths(returned[n]),
			Remaining:  sluice.Thousandths(remaining[n]),
			Free:       sluice.Thousandths(frees[n]),
			ResetAfter: duration(resets[n]),
		})
		s.marks.setTight(s.marks.hashOf(&changes[i].Key), frees[n] <= 0)
		if returned[n] > 0 {
			s.watch.made(changes[i].Key)
		}
	}
	*d = sluice.Decision{
		Allowed: true, Source: sluice.FromStore, Time: time.UnixMicro(latest), Demands: changes, Results: results,
	}
	d.Conclude()
	return nil
}

// Reset makes buckets full again.
func (s *Store) Reset(ctx context.Context, keys []sluice.Key) error {
	if err := s.ready(ctx); err != nil || len(keys) == 0 {
		return err
	}
	args, _ := keyArgsOf(keys, func(k *sluice.Key) *sluice.Key { return k })
	err := s.call(ctx, nil, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, s.sql.forget, s.db.Given(), s.db.Patience(), args.namespaces, args.entities, args.resources, args.names)
		return err
	})
	if err != nil {
		return err
	}
	for i := range keys {
		s.marks.setTight(s.marks.hashOf(&keys[i]), false)
		s.watch.made(keys[i])
	}
	return nil
}
