package limitstore

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-go/sluice"
)

// takeInCluster decides a take that has an id or is over several records.
func (s *Store) takeInCluster(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if err := s.checkLimits(t.Demands); err != nil {
		return err
	}
	groups := byRecord(len(t.Demands), func(i int) *sluice.Key { return &t.Demands[i].Key })
	if t.Peek {
		_, err := s.peekParts(ctx, t, groups, d)
		return err
	}
	if t.UpTo && len(groups) > 1 {
		return s.takeUpTo(ctx, t, groups, d)
	}
	return s.takeAs(ctx, t, t, groups, d)
}

// takeAs takes, part by part, in the place of the take that was asked for. It
// is the same except for takes up to an amount.
func (s *Store) takeAs(ctx context.Context, asked, t *sluice.Take, groups [][]int, d *sluice.Decision) error {
	if t.ID == "" {
		return s.carryOut(ctx, t, groups, &attempt{name: newAttempt()}, d)
	}
	for range maxBegins {
		dir := newDirectory(asked, t, groups)
		life := t.Keep
		if len(groups) == 1 {
			// One call decides; the directory only says where.
			dir.Status, life = taken, t.Keep+longer
		}
		dir, err := s.begin(ctx, t.ID, dir, life)
		if err != nil {
			return err
		}
		if asked != t {
			t = exactly(asked, dir.Parts[0].Demands[0].Cost) // as the first time
		}
		err = s.carryOut(ctx, t, groups, &attempt{name: dir.Attempt, id: t.ID, dir: dir}, d)
		if !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return errUnderWay
}

// takeUpTo looks how much all records together would grant, and then takes
// that. If others come in between it is refused.
func (s *Store) takeUpTo(ctx context.Context, t *sluice.Take, groups [][]int, d *sluice.Decision) error {
	var seen sluice.Decision
	amount, err := s.peekParts(ctx, t, groups, &seen)
	if err != nil {
		return err
	}
	exact := exactly(t, amount)
	if t.ID != "" {
		old, err := s.readDirectory(ctx, t.ID)
		if err != nil {
			return err
		}
		seen.Allowed = seen.Allowed || old != nil // it may be a repetition
	}
	if seen.Allowed {
		if err := s.takeAs(ctx, t, exact, groups, d); err != nil {
			return err
		}
		d.Demands = t.Demands
		d.Conclude()
		return nil
	}
	// Some demands may count even if refused.
	m := newMerged(t)
	for _, which := range groups {
		part, err := s.takePart(ctx, t, which, &attempt{name: newAttempt()}, true)
		if err != nil {
			return afterSome(err)
		}
		m.add(part, which)
	}
	after, err := s.peekOnce(ctx, exact, groups)
	if err != nil {
		return afterSome(err)
	}
	for i := range m.decision.Results {
		res, was, is := &m.decision.Results[i], &seen.Results[i], &after.decision.Results[i]
		res.Fits, res.Held, res.RetryAfter, res.LatestAfter = was.Fits, was.Held, 0, 0
		if !res.Fits {
			res.RetryAfter, res.LatestAfter = is.RetryAfter, is.LatestAfter
		}
	}
	m.decision.Allowed = false
	m.fill(d)
	return nil
}

// exactly is a take up to an amount as a take of that amount.
func exactly(t *sluice.Take, amount int64) *sluice.Take {
	exact := *t
	exact.UpTo = false
	exact.Demands = slices.Clone(t.Demands)
	for i := range exact.Demands {
		exact.Demands[i].Cost = sluice.Thousandths(amount)
	}
	return &exact
}

// peekParts looks at all records. A take up to an amount is looked at once
// more with the amount that all together would grant, or if that is nothing,
// with what it would have been content with. That amount is the answer.
func (s *Store) peekParts(ctx context.Context, t *sluice.Take, groups [][]int, d *sluice.Decision) (amount int64, err error) {
	m, err := s.peekOnce(ctx, t, groups)
	if err != nil {
		return 0, err
	}
	if t.UpTo {
		amount = m.amount
		if amount <= 0 {
			amount = min(t.Demands[0].Charge().Thousandths(), sluice.Token)
		}
		if m, err = s.peekOnce(ctx, exactly(t, amount), groups); err != nil {
			return 0, err
		}
		m.decision.Demands = t.Demands
	}
	m.fill(d)
	return amount, nil
}

func (s *Store) peekOnce(ctx context.Context, t *sluice.Take, groups [][]int) (*merged, error) {
	m := newMerged(t)
	for _, which := range groups {
		sub := *t
		sub.Demands, sub.Peek, sub.Lease = pick(t.Demands, which), true, false
		var d sluice.Decision
		err := s.withWindows(func(now int64) error {
			amount, err := s.takeSome(ctx, &sub, &d, now)
			m.amount = min(m.amount, amount)
			return err
		})
		if err != nil {
			return nil, err
		}
		m.add(&d, which)
	}
	return m, nil
}

func (s *Store) checkLimits(demands []sluice.Demand) error {
	for i := range demands {
		if _, err := s.limits.get(demands[i].Limit); err != nil {
			return err
		}
	}
	return nil
}
