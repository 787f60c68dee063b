package limitstore

import (
	"context"
	"errors"
	"slices"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// takeInCluster decides a take that has an id or is over several records.
func (s *Store) takeInCluster(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if err := s.checkLimits(t.Demands); err != nil {
		return err
	}
	groups := byRecord(len(t.Demands), func(i int) *sluice.Key { return &t.Demands[i].Key })
	if t.Peek {
		if _, err := s.peekParts(ctx, t, groups, d); err != nil || t.ID == "" {
			return err
		}
		return s.peekRepeated(ctx, t, d)
	}
	if t.UpTo && len(groups) > 1 {
		return s.takeUpTo(ctx, t, groups, d)
	}
	return s.takeAs(ctx, t, t, groups, d)
}

// peekRepeated answers a peek by the take that its id is of, if there was one.
func (s *Store) peekRepeated(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	dir, err := s.readDirectory(ctx, t.ID)
	if err != nil || dir == nil {
		return err
	}
	first := sluice.Decision{}
	found, err := s.repeated(ctx, t, dir, &first)
	if err != nil || !found {
		return err
	}
	if !bucket.Repeats(dir.Print, t, oldPrint) {
		return sluice.ErrRequestMismatch
	}
	*d = first
	return nil
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
		mine := dir
		dir, err := s.begin(ctx, t.ID, dir, life)
		if err != nil {
			return err
		}
		if dir != mine {
			if found, err := s.repeated(ctx, asked, dir, d); err != nil || found {
				return err
			}
			if !dir.samePlaces(mine) { // nobody goes on with it
				if err := s.replace(ctx, t.ID, dir); err != nil && !errors.Is(err, errOvertaken) {
					return err
				}
				continue
			}
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

// replace has an attempt of other buckets given up, so that another can begin: the
// limits that apply have changed since.
func (s *Store) replace(ctx context.Context, id string, dir *directory) error {
	if dir.Status == taken { // of one part, which was refused or is on its way
		dir = &directory{
			Version: version, Status: pending, Attempt: dir.Attempt, Print: dir.Print, Parts: dir.Parts,
			Resumable: true, text: dir.text,
		}
	}
	return s.giveUp(ctx, &attempt{name: dir.Attempt, id: id, dir: dir})
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
		if !d.Repeated {
			d.Demands = t.Demands
			d.Conclude()
		}
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
