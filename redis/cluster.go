package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// A call of the script is about one slot. So in a cluster a take over several
// records goes from one to the next, leaving a receipt in each, and if one
// refuses, what was taken before is given back, by its receipt and so once.
// Nothing is gained, whatever happens: others may be refused for what is given
// back a moment later, and a caller that dies in between has spent what it had
// got to.
//
// If the take has an id, its directory decides: a take is allowed when the
// directory says so, and is given back only while it does not. So of two
// callers with one id at most one goes on, and one that was away for so long
// that its directory is gone gives back what it took.

const (
	// inBetween is how long the receipts of a take without an id are kept.
	inBetween = time.Minute

	// longer is by how much a directory of a single part outlives it.
	longer = time.Minute
)

// takeInCluster decides a take that has an id or is over several records.
func (s *Store) takeInCluster(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if err := s.checkLimits(t.Demands); err != nil {
		return err
	}
	groups := byRecord(len(t.Demands), func(i int) *sluice.Key { return &t.Demands[i].Key })
	if t.Peek {
		return s.peekParts(ctx, t, groups, d)
	}
	if t.UpTo && len(groups) > 1 {
		return s.takeUpTo(ctx, t, groups, d)
	}
	return s.takeAs(ctx, t, t, groups, d)
}

// takeAs takes, part by part, in the place of the take that was asked for. It
// is the same but for takes up to an amount.
func (s *Store) takeAs(ctx context.Context, asked, t *sluice.Take, groups [][]int, d *sluice.Decision) error {
	if t.ID == "" {
		return s.takeParts(ctx, t, groups, newAttempt(), true, d)
	}
	dir := newDirectory(asked, t, groups)
	// More than it can take to go from slot to slot, and back.
	life := time.Duration(2*len(groups)+4) * s.config.Timeout
	if len(groups) == 1 {
		// One call decides; the directory only says where.
		dir.Status, life = taken, t.Keep+min(t.Within, sluice.MaxLease)+longer
	}
	began := time.Now()
	dir, ours, err := s.begin(ctx, t.ID, dir, life)
	if err != nil {
		return err
	}
	if asked != t {
		t = exactly(asked, sluice.Tokens(dir.Parts[0].Demands[0].Cost)) // as the first time
	}
	if err := s.takeParts(ctx, t, groups, dir.Attempt, ours, d); err != nil || !ours || len(groups) == 1 {
		return err
	}
	return s.conclude(ctx, t, groups, dir, d, t.Keep+d.Delay-time.Since(began))
}

// takeUpTo looks how much all records together would grant, and then takes
// that. If others come in between it is refused.
func (s *Store) takeUpTo(ctx context.Context, t *sluice.Take, groups [][]int, d *sluice.Decision) error {
	var seen sluice.Decision
	if err := s.peekParts(ctx, t, groups, &seen); err != nil {
		return err
	}
	exact := exactly(t, grantOf(t, seen.Results))
	if t.ID != "" {
		old, _, err := s.readDirectory(ctx, t.ID)
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
		part, err := s.takePart(ctx, t, which, newAttempt(), true)
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
		res.Fits, res.Held, res.RetryAfter = was.Fits, was.Held, 0
		if !res.Fits {
			res.RetryAfter = is.RetryAfter
		}
	}
	m.decision.Allowed = false
	m.fill(d)
	return nil
}

// exactly is a take up to an amount as a take of that amount.
func exactly(t *sluice.Take, amount sluice.Tokens) *sluice.Take {
	exact := *t
	exact.UpTo, exact.Within = false, 0
	exact.Demands = slices.Clone(t.Demands)
	for i := range exact.Demands {
		exact.Demands[i].Cost = amount
	}
	return &exact
}

// conclude writes into the directory how a take over several parts ended. It
// must be forgotten before its parts are.
func (s *Store) conclude(ctx context.Context, t *sluice.Take, groups [][]int, dir *directory, d *sluice.Decision, life time.Duration) error {
	from, to := dir.encode(), *dir
	to.Status = taken
	if !d.Allowed { // it was given back, and is as if it had never been
		to.Status, life = undone, time.Millisecond
	}
	done, err := s.swapDirectory(ctx, t.ID, from, &to, life)
	if err != nil {
		return afterSome(err)
	}
	if done || !d.Allowed {
		return nil
	}
	// It took so long that the directory is gone. Somebody else may have taken
	// under the same id since.
	for i := range groups {
		if _, err := s.undo(ctx, t, groups[i], dir.Attempt); err != nil {
			return afterSome(err)
		}
	}
	return fmt.Errorf("redis: %w: the take took too long from slot to slot", sluice.ErrUnavailable)
}

// takeParts takes from one record after the other. If the attempt is not ours
// but an earlier one, whose answer is wanted again, nothing is given back.
func (s *Store) takeParts(ctx context.Context, t *sluice.Take, groups [][]int, attempt string, ours bool, d *sluice.Decision) error {
	m := newMerged(t)
	for n, which := range groups {
		part, err := s.takePart(ctx, t, which, attempt, m.refused)
		if err != nil {
			if n > 0 && ours {
				s.abandon(ctx, t, groups[:n], attempt)
				return fmt.Errorf("after %d of its slots: %w", n, afterSome(err))
			}
			return err
		}
		m.add(part, which)
		if !part.Allowed && !m.refused && ours {
			m.refused = true
			for _, before := range groups[:n] {
				if err := s.giveBack(ctx, t, before, attempt, m); err != nil {
					return afterSome(err)
				}
			}
		}
	}
	m.fill(d)
	return nil
}

// takePart takes from one record, leaving a receipt. If another has refused
// it only consumes what counts even then, and looks.
func (s *Store) takePart(ctx context.Context, t *sluice.Take, which []int, attempt string, refused bool) (*sluice.Decision, error) {
	sub := *t
	sub.Demands, sub.ID = pick(t.Demands, which), attempt
	if t.ID == "" {
		sub.Keep = inBetween
	}
	var d sluice.Decision
	err := s.withWindows(func(now int64) error {
		r := &request{numbered: true}
		if err := s.add(r, sub.Demands, now); err != nil {
			return err
		}
		h := takeHeader(&sub)
		if refused {
			h[optionsAt] |= optionRefuse
		} else {
			r.keys = append(r.keys, partKey(r.keys[0], attempt))
		}
		reply, err := s.call(ctx, r.first(h), r)
		if err != nil {
			return err
		}
		return readTake(reply, r, &sub, &d)
	})
	return &d, err
}

// undo gives back what an attempt took from one record, and answers how its
// buckets are then; nothing if it took nothing there.
func (s *Store) undo(ctx context.Context, t *sluice.Take, which []int, attempt string) ([]sluice.Result, error) {
	record := recordKey(&t.Demands[which[0]].Key)
	r := &request{keys: []string{partKey(record, attempt), record}}
	reply, err := s.settle(ctx, r, &sluice.Settlement{ID: t.ID, Action: sluice.Release}, undo)
	if err == nil {
		_, results, err := readSettled(reply)
		return results, err
	}
	if errors.Is(err, sluice.ErrLeaseClosed) {
		err = nil
	}
	return nil, err
}

// giveBack undoes a part and puts how its buckets are then into m.
func (s *Store) giveBack(ctx context.Context, t *sluice.Take, which []int, attempt string, m *merged) error {
	results, err := s.undo(ctx, t, which, attempt)
	if err != nil || len(results) != len(which) {
		return err
	}
	for n, i := range which {
		res := &m.decision.Results[i]
		if res.Consumed == 0 && results[n].Consumed == 0 {
			continue // a shadow: nothing has changed
		}
		res.Consumed += results[n].Consumed
		res.Remaining, res.ResetAfter = results[n].Remaining, results[n].ResetAfter
		if !res.Fits { // a shadow that counts even if refused has longer to wait now
			if err := s.retryAgain(ctx, t, i, res); err != nil {
				return err
			}
		}
	}
	return nil
}

// retryAgain looks when a demand could pass.
func (s *Store) retryAgain(ctx context.Context, t *sluice.Take, i int, res *sluice.Result) error {
	m, err := s.peekOnce(ctx, &sluice.Take{Demands: t.Demands[i : i+1]}, [][]int{{0}})
	if err == nil {
		res.RetryAfter = m.decision.Results[0].RetryAfter
	}
	return err
}

// abandon undoes what can be undone after an error. What cannot stays spent.
func (s *Store) abandon(ctx context.Context, t *sluice.Take, groups [][]int, attempt string) {
	ctx = context.WithoutCancel(ctx)
	for _, which := range groups {
		s.undo(ctx, t, which, attempt) //nolint:errcheck // the caller knows that the outcome is unknown
	}
}

// peekParts looks at all records. A take up to an amount is looked at once
// more with the amount that all together would grant.
func (s *Store) peekParts(ctx context.Context, t *sluice.Take, groups [][]int, d *sluice.Decision) error {
	m, err := s.peekOnce(ctx, t, groups)
	if err != nil {
		return err
	}
	if t.UpTo {
		if m, err = s.peekOnce(ctx, exactly(t, grantOf(t, m.decision.Results)), groups); err != nil {
			return err
		}
		m.decision.Demands = t.Demands
	}
	m.fill(d)
	return nil
}

func (s *Store) peekOnce(ctx context.Context, t *sluice.Take, groups [][]int) (*merged, error) {
	m := newMerged(t)
	for _, which := range groups {
		sub := *t
		sub.Demands, sub.Peek, sub.Lease = pick(t.Demands, which), true, false
		var d sluice.Decision
		if err := s.withWindows(func(now int64) error { return s.take(ctx, &sub, &d, now) }); err != nil {
			return nil, err
		}
		m.add(&d, which)
	}
	return m, nil
}

// grantOf is what a take up to an amount asks for where so much is left: see
// storetest.Model.
func grantOf(t *sluice.Take, results []sluice.Result) sluice.Tokens {
	charge := t.Demands[0].Charge()
	n := charge
	for i := range t.Demands {
		if !t.Demands[i].Shadow {
			n = min(n, results[i].Remaining)
		}
	}
	if n < charge {
		n = max(n, 0) / sluice.Token * sluice.Token
	}
	if n == 0 {
		n = min(charge, sluice.Token)
	}
	return n
}

// merged is a decision put together from parts.
type merged struct {
	decision sluice.Decision
	refused  bool
	repeated int
	parts    int
}

func newMerged(t *sluice.Take) *merged {
	return &merged{decision: sluice.Decision{
		Allowed: true, Source: sluice.FromStore, ID: t.ID, Demands: t.Demands, Results: make([]sluice.Result, len(t.Demands)),
	}}
}

func (m *merged) add(part *sluice.Decision, which []int) {
	d := &m.decision
	d.Allowed = d.Allowed && part.Allowed
	d.Delay = max(d.Delay, part.Delay)
	if part.Time.After(d.Time) {
		d.Time = part.Time
	}
	m.parts++
	if part.Repeated {
		m.repeated++
	}
	for n, i := range which {
		d.Results[i] = part.Results[n]
	}
}

// fill makes d what the parts amount to. It is a repetition if all were.
func (m *merged) fill(d *sluice.Decision) {
	m.decision.Repeated = m.repeated == m.parts
	m.decision.Results = append(d.Results[:0], m.decision.Results...)
	*d = m.decision
	d.Conclude()
}

func (s *Store) checkLimits(demands []sluice.Demand) error {
	for i := range demands {
		if _, err := s.limits.get(demands[i].Limit); err != nil {
			return err
		}
	}
	return nil
}
