package limitstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
)

// Hold grants tokens ahead of need.
func (s *Store) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	if err := s.ready(ctx); err != nil || len(requests) == 0 {
		return err
	}
	keys, places := keyArgsOf(requests, func(q *sluice.HoldRequest) *sluice.Key { return &q.Key })
	limits, err := limitArgsOf(s, requests, func(q *sluice.HoldRequest) *sluice.Limit { return &q.Limit })
	if err != nil {
		return err
	}
	var (
		rules                               []int32
		nodes, seqs, leasts, mosts, ttls    []int64
		previousNodes, previousSeqs, spents []int64
		now, latest                         int64
		isLost                              bool
		granted, remaining, frees           []int64
		ends, times, retries                []int64
		recalled, helds                     []bool
	)
	for i := range requests {
		q := &requests[i]
		rules = append(rules, limits.number(&q.Limit))
		nodes, seqs = append(nodes, int64(q.ID.Node)), append(seqs, int64(q.ID.Seq))
		leasts, mosts, ttls = append(leasts, q.Min.Thousandths()), append(mosts, q.Max.Thousandths()), append(ttls, q.TTL.Microseconds())
		previousNodes, previousSeqs = append(previousNodes, int64(q.Previous.Node)), append(previousSeqs, int64(q.Previous.Seq))
		spents = append(spents, q.Spent.Thousandths())
	}
	err = s.withWindows(limits, func() (bool, int64, error) {
		err := s.call(ctx, &now, func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, s.sql.grant,
				s.db.Given(), s.db.Patience(),
				keys.namespaces, keys.entities, keys.resources, keys.names,
				limits.algorithms, limits.amounts, limits.periods, limits.bursts, limits.calendars, limits.zones, limits.bounds,
				places, rules, nodes, seqs, leasts, mosts, ttls, previousNodes, previousSeqs, spents,
			).Scan(&now, &isLost, &latest, &granted, &remaining, &frees, &ends, &times, &retries, &recalled, &helds)
		})
		return isLost, latest, err
	})
	if err != nil {
		return err
	}
	for i := range requests {
		g := sluice.Grant{
			Amount:    sluice.Thousandths(granted[i]),
			Remaining: sluice.Thousandths(remaining[i]),
			Free:      sluice.Thousandths(frees[i]),
			Now:       time.UnixMicro(times[i]),
			RetryIn:   duration(retries[i]),
			Recalled:  recalled[i],
			Held:      helds[i],
		}
		if g.Amount.Thousandths() > 0 {
			g.Expires = time.UnixMicro(ends[i])
		}
		grants[i] = g
		if requests[i].Previous != (sluice.HoldID{}) && g.Free.Thousandths() > 0 {
			s.watch.made(requests[i].Key)
		}
	}
	return nil
}

// Return closes holds and removes tickets.
func (s *Store) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	if err := s.ready(ctx); err != nil || len(returns) == 0 {
		return err
	}
	keys, places := keyArgsOf(returns, func(r *sluice.HoldReturn) *sluice.Key { return &r.Key })
	var nodes, seqs, spents []int64
	for i := range returns {
		r := &returns[i]
		nodes, seqs, spents = append(nodes, int64(r.ID.Node)), append(seqs, int64(r.ID.Seq)), append(spents, r.Spent.Thousandths())
	}
	err := s.call(ctx, nil, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, s.sql.giveBack,
			s.db.Given(), s.db.Patience(), keys.namespaces, keys.entities, keys.resources, keys.names, places, nodes, seqs, spents)
		return err
	})
	if err != nil {
		return err
	}
	for i := range returns {
		s.marks.setTight(s.marks.hashOf(&returns[i].Key), false)
		s.watch.made(returns[i].Key)
	}
	return nil
}
