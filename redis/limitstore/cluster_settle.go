package limitstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// settleInCluster settles a lease part by part. Each part is settled once
// however often it is asked for, so after an error the same may be asked again.
func (s *Store) settleInCluster(ctx context.Context, st *sluice.Settlement, d *sluice.Decision) error {
	dir, err := s.readDirectory(ctx, st.ID)
	if err != nil {
		return err
	}
	if dir == nil || dir.Status == pending {
		return sluice.ErrLeaseClosed
	}
	costs, err := dir.costs(st)
	if err != nil {
		// Of a lease that has ended that is not what is wrong.
		probe := &request{keys: []string{dir.receipt(0), string(dir.Parts[0].Record)}}
		_, ended := s.settle(ctx, probe, &sluice.Settlement{ID: st.ID, Action: sluice.Adjust}, asAsked)
		if !errors.Is(ended, sluice.ErrLeaseClosed) {
			return err
		}
		costs = make([][]sluice.LimitCost, len(dir.Parts))
	}
	n := 0
	for i := range dir.Parts {
		n += len(dir.Parts[i].Demands)
	}
	demands, results := make([]sluice.Demand, n), make([]sluice.Result, n)
	began, at, taken := time.Now(), int64(0), int64(0)
	for i := range dir.Parts {
		p := &dir.Parts[i]
		one := *st
		one.Costs = costs[i]
		r := &request{keys: []string{dir.receipt(i), string(p.Record)}}
		reply, err := s.settle(ctx, r, &one, asAsked)
		var ds []sluice.Demand
		var rs []sluice.Result
		if err == nil {
			ds, rs, err = readSettled(reply)
		}
		if err == nil && len(ds) != len(p.Demands) {
			err = errReply
		}
		if err != nil {
			if i > 0 {
				return fmt.Errorf("after %d of its slots: %w", i, afterSome(err))
			}
			return err
		}
		for j, dm := range p.Demands {
			demands[dm.Number], results[dm.Number] = ds[j], rs[j]
		}
		settled, since := timesSettled(reply)
		at, taken = max(at, settled), max(taken, since)
	}
	if err := s.noteSettled(ctx, st, dir, began); err != nil {
		return err
	}
	conclude(d, st.ID, at, taken, demands, results)
	return nil
}

// noteSettled has the directory live as long as its parts, and say that a
// released one is free.
func (s *Store) noteSettled(ctx context.Context, st *sluice.Settlement, dir *directory, began time.Time) error {
	to := *dir
	var life time.Duration
	switch {
	case st.Action == sluice.Renew && len(dir.Parts) == 1:
		life = st.Keep + longer
	case st.Action == sluice.Renew:
		life = st.Keep - time.Since(began)
	case st.Action == sluice.Release && len(dir.Parts) > 1 && dir.Status != undone:
		// As long as a second release may come.
		to.Status, life = undone, longer
	default:
		return nil
	}
	if _, err := s.swapDirectory(ctx, st.ID, dir.text, &to, life); err != nil {
		return afterSome(err)
	}
	return nil
}

// costs sorts those of a settlement by part.
func (dir *directory) costs(st *sluice.Settlement) ([][]sluice.LimitCost, error) {
	sorted := make([][]sluice.LimitCost, len(dir.Parts))
	for _, c := range st.Costs {
		known := false
		for i := range dir.Parts {
			here := false
			for _, dm := range dir.Parts[i].Demands {
				if string(dm.Limit) != c.Limit {
					continue
				}
				here = true
				// The script knows better, but not before others are settled.
				if dm.Concurrency && c.Cost.Thousandths() != dm.Cost && len(dir.Parts) > 1 {
					return nil, bucket.LeaseCostError(c.Limit, true)
				}
			}
			if here {
				known = true
				sorted[i] = append(sorted[i], c)
			}
		}
		if !known {
			return nil, bucket.LeaseCostError(c.Limit, false)
		}
	}
	return sorted, nil
}
