package limitstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/postgres"
)

// receipt is what is remembered of a take with an id.
type receipt struct {
	now     int64
	print   []byte
	allowed bool
	demands []sluice.Demand
	results []sluice.Result
}

// takeOnce decides a take with an id, which may have been taken before: then the
// answer is the one it got, of the buckets it had.
func (s *Store) takeOnce(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	for range maxTries {
		err := s.take(ctx, t, d)
		mismatch := errors.Is(err, sluice.ErrRequestMismatch)
		if err != nil && !mismatch || err == nil && !d.Repeated && !t.Peek {
			return err
		}
		r, err := s.readReceipt(ctx, t.ID)
		switch {
		case err != nil:
			return err
		case r != nil && !bucket.Repeats(r.print, t, oldPrint):
			return fmt.Errorf("take %q: %w", t.ID, sluice.ErrRequestMismatch)
		case r != nil:
			*d = sluice.Decision{
				Allowed: r.allowed, Source: sluice.FromStore, Repeated: true, ID: t.ID, Time: time.UnixMicro(r.now),
				Demands: bucket.Then(r.demands, t.Demands), Results: append(d.Results[:0], r.results...),
			}
			d.Conclude()
			return nil
		case t.Peek:
			return nil
		} // it has just ended
	}
	return postgres.UnavailableError(errors.New("takes with this id come and go"))
}

// readReceipt returns nil if there is none, and if the id is free again.
func (s *Store) readReceipt(ctx context.Context, id string) (*receipt, error) {
	var r *receipt
	err := s.call(ctx, nil, func(ctx context.Context, conn *pgx.Conn) error {
		r = nil
		rows, err := conn.Query(ctx, fmt.Sprintf(`
			SELECT c.now, r.print, r.allowed,
				d.namespace, d.entity, d.resource, d.limit_name, d.algorithm, d.amount, d.period, d.burst, d.calendar, d.zone,
				d.cost, d.flags, d.fits, d.held, d.consumed, d.remaining, d.retry, d.reset
			FROM (SELECT %[1]s.clock_v1($1) AS now) c
			JOIN %[1]s.receipt r ON r.id = $2 AND r.expires > c.now AND r.ended <> 3,
			unnest(r.demands) WITH ORDINALITY AS d (namespace, entity, resource, limit_name, algorithm, amount, period, burst, calendar, zone,
				cost, flags, fits, held, consumed, remaining, retry, reset, charge, number)
			ORDER BY d.number`, s.db.Config.Schema), s.db.Given(), postgres.Text(id))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if r == nil {
				r = &receipt{}
			}
			if err := r.scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, postgres.ReadError(err)
	}
	return r, nil
}

// scan reads one demand and what it got.
func (r *receipt) scan(rows pgx.Rows) error {
	var (
		k                                       rowKey
		algorithm, calendar, flags              int16
		amount, period, burst                   int64
		cost, consumed, remaining, retry, reset int64
		zone                                    string
		fits, held                              bool
	)
	if err := rows.Scan(&r.now, &r.print, &r.allowed, &k.namespace, &k.entity, &k.resource, &k.limit,
		&algorithm, &amount, &period, &burst, &calendar, &zone, &cost, &flags, &fits, &held, &consumed, &remaining, &retry, &reset); err != nil {
		return err
	}
	d := sluice.Demand{Key: k.key(), Limit: limitOf(algorithm, amount, period, burst, calendar, zone), Cost: sluice.Thousandths(cost)}
	setFlags(&d, flags)
	r.demands = append(r.demands, d)
	r.results = append(r.results, sluice.Result{
		Fits: fits, Held: held, Consumed: sluice.Thousandths(consumed),
		Remaining: sluice.Thousandths(remaining), Free: sluice.Thousandths(remaining), // what was held is not remembered
		RetryAfter: duration(retry), ResetAfter: duration(reset),
	})
	return nil
}
