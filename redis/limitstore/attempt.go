package limitstore

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
// Giving back also leaves a receipt where nothing was taken, so that a call that
// is still on its way comes too late. Nothing is gained, whatever happens:
// others may be refused for what is given back a moment later, and a caller
// without an id that dies in between has spent what it had got to.
//
// If the take has an id, its directory decides. It names the attempt, and with
// it the receipts, so whoever repeats the id goes on with the same attempt and
// charges no record twice. An attempt ends once: it is taken when the directory
// says so, and it is given back only after the directory says that it was given
// up. Whoever finds a directory that says this gives back what is left before
// beginning another attempt.

const (
	// inBetween is how long the receipts of a take without an id are kept, and
	// those that stop what is still on its way.
	inBetween = time.Minute

	// longer is by how much a directory of a single part outlives it.
	longer = time.Minute
)

// attempt is a take on its way from record to record.
type attempt struct {
	name string     // of its receipts
	id   string     // of the take, or ""
	dir  *directory // nil without an id
}

// open reports whether the attempt can still be given up. A take of one record
// is decided by one call.
func (a *attempt) open() bool { return a.dir == nil || a.dir.Status == pending }

// errOvertaken is the end of an attempt that somebody else has ended.
var errOvertaken = errors.New("another caller with this id has ended the attempt")

// carryOut makes an attempt, or repeats the answer of one that was taken.
func (s *Store) carryOut(ctx context.Context, t *sluice.Take, groups [][]int, a *attempt, d *sluice.Decision) error {
	m := newMerged(t)
	if err := s.takeParts(ctx, t, groups, a, m); err != nil {
		return err
	}
	if a.dir != nil && a.open() {
		if m.refused {
			s.forget(ctx, a)
		} else if first, err := s.conclude(ctx, a); err != nil {
			return err
		} else {
			m.repeat(!first)
		}
	}
	m.fill(d)
	if d.Allowed {
		return m.doubt
	}
	return nil
}

// takeParts takes from one record after the other.
func (s *Store) takeParts(ctx context.Context, t *sluice.Take, groups [][]int, a *attempt, m *merged) error {
	for n, which := range groups {
		part, err := s.takePart(ctx, t, which, a, m.refused)
		switch {
		case err == nil:
		case errors.Is(err, sluice.ErrUnacknowledged): // which is not undone
			m.doubt = err
		case m.refused:
			return afterSome(err)
		case !a.open():
			return err
		case errors.Is(err, sluice.ErrLeaseClosed):
			return errOvertaken
		default:
			return s.abandon(ctx, t, groups, n, a, err)
		}
		m.add(part, which)
		if part.Allowed || m.refused || !a.open() {
			continue
		}
		m.refused = true
		if err := s.giveUp(ctx, a); err != nil {
			return err
		}
		for i, other := range groups {
			if i < n {
				err = s.giveBack(ctx, t, other, a.name, m)
			} else if a.dir != nil { // another caller with the id may have got further
				_, err = s.undo(ctx, t, other, a.name)
			}
			if err != nil {
				return afterSome(err)
			}
		}
	}
	return nil
}

// takePart takes from one record, leaving a receipt. If another has refused
// it only consumes what counts even then, and looks.
func (s *Store) takePart(ctx context.Context, t *sluice.Take, which []int, a *attempt, refused bool) (*sluice.Decision, error) {
	sub := *t
	sub.Demands, sub.ID = pick(t.Demands, which), a.name
	if t.ID == "" {
		sub.Keep = inBetween
	}
	var d sluice.Decision
	err := s.withWindows(func(now int64) error {
		r := &request{numbered: true, acknowledge: s.certain(&sub)}
		if err := s.add(r, sub.Demands, now); err != nil {
			return err
		}
		h := takeHeader(&sub)
		if refused {
			h[optionsAt] |= optionRefuse
		} else {
			r.keys = append(r.keys, partKey(r.keys[0], a.name))
		}
		if a.open() {
			h[optionsAt] |= optionPart
		}
		if neverPasses(t) {
			h[optionsAt] |= optionNever
		}
		reply, err := s.call(ctx, r.first(h), r)
		if err != nil {
			return err
		}
		err = readTake(reply, r, &sub, &d)
		if err == nil && d.Repeated || errors.Is(err, sluice.ErrRequestMismatch) {
			return s.repeatPart(ctx, partKey(r.keys[0], a.name), &sub, &d)
		}
		if err != nil {
			return err
		}
		return s.acknowledgment(r, &d)
	})
	return &d, err
}

// repeatPart answers for a part that was taken before in the same attempt, whose
// name nobody else has.
func (s *Store) repeatPart(ctx context.Context, key string, t *sluice.Take, d *sluice.Decision) error {
	r, err := s.readReceipt(ctx, key)
	switch {
	case err != nil:
		return err
	case r == nil || len(r.results) != len(t.Demands):
		return errOvertaken
	}
	s.replay(t, d, r)
	return nil
}

// neverPasses reports whether one of the demands is more than its bucket can
// ever have, so that there is nothing to wait for in the others.
func neverPasses(t *sluice.Take) bool {
	return slices.ContainsFunc(t.Demands, func(d sluice.Demand) bool {
		ask := d.Charge().Thousandths()
		if t.UpTo {
			ask = min(ask, sluice.Token)
		}
		return !d.Shadow && ask > d.Limit.Capacity().Thousandths()
	})
}

// conclude writes into the directory that an attempt has taken from all records.
// It reports whether nobody else has. The directory lives no longer for it, so
// that it is forgotten before its parts are.
func (s *Store) conclude(ctx context.Context, a *attempt) (first bool, err error) {
	to := *a.dir
	to.Status = taken
	done, err := s.swapDirectory(ctx, a.id, a.dir.text, &to, sameLife)
	if err != nil {
		return false, afterSome(err)
	}
	if done {
		return true, nil
	}
	now, err := s.readDirectory(ctx, a.id)
	switch {
	case err != nil:
		return false, afterSome(err)
	case now == nil:
		return false, fmt.Errorf("redis: %w: the take took longer than its id is kept", sluice.ErrUnknown)
	case now.Attempt == a.name && now.Status == taken:
		return false, nil
	}
	return false, errOvertaken
}

// giveUp writes into the directory that an attempt is given up, before anything
// is given back.
func (s *Store) giveUp(ctx context.Context, a *attempt) error {
	if a.dir == nil {
		return nil
	}
	to := *a.dir
	to.GivenUp = true
	done, err := s.swapDirectory(ctx, a.id, a.dir.text, &to, sameLife)
	if err != nil {
		return afterSome(err)
	}
	if !done {
		return errOvertaken
	}
	a.dir = &to
	return nil
}

// forget frees the id of an attempt of which everything has been given back. If
// it cannot, the next one to come does.
func (s *Store) forget(ctx context.Context, a *attempt) {
	if a.dir == nil {
		return
	}
	to := *a.dir
	to.Status = undone
	s.swapDirectory(ctx, a.id, a.dir.text, &to, time.Millisecond) //nolint:errcheck // see above
}

// abandon gives up an attempt that has got an error from the record numbered n.
// The error stays what it is if everything could be given back, except that an
// unknown outcome is then known.
func (s *Store) abandon(ctx context.Context, t *sluice.Take, groups [][]int, n int, a *attempt, err error) error {
	unknown := errors.Is(err, sluice.ErrUnknown)
	if n == 0 && !unknown && a.dir == nil {
		return err // nothing has happened
	}
	ctx = context.WithoutCancel(ctx)
	back := s.giveUp(ctx, a)
	for i := 0; i < len(groups) && back == nil; i++ {
		if i < n || i == n && unknown || a.dir != nil {
			_, back = s.undo(ctx, t, groups[i], a.name)
		}
	}
	switch {
	case back != nil:
		return fmt.Errorf("after %d of its slots: %w", n, afterSome(err))
	case unknown:
		err = fmt.Errorf("redis: %w: given back after %d of its slots: %v", sluice.ErrUnavailable, n, err)
	}
	s.forget(ctx, a)
	return err
}

// undo gives back what an attempt took from one record, and answers how its
// buckets are then; nothing if it took nothing there.
func (s *Store) undo(ctx context.Context, t *sluice.Take, which []int, attempt string) ([]sluice.Result, error) {
	return s.undoPart(ctx, recordKey(&t.Demands[which[0]].Key), attempt)
}

func (s *Store) undoPart(ctx context.Context, record, attempt string) ([]sluice.Result, error) {
	r := &request{keys: []string{partKey(record, attempt), record}}
	reply, err := s.settle(ctx, r, &sluice.Settlement{Action: sluice.Release, Keep: inBetween}, undo)
	if err != nil {
		return nil, err
	}
	_, results, err := readSettled(reply)
	return results, err
}

// giveBack undoes a part and puts how its buckets are then into m.
func (s *Store) giveBack(ctx context.Context, t *sluice.Take, which []int, attempt string, m *merged) error {
	results, err := s.undo(ctx, t, which, attempt)
	if err != nil || len(results) != len(which) {
		return err
	}
	for n, i := range which {
		res := &m.decision.Results[i]
		if res.Consumed.Thousandths() == 0 && results[n].Consumed.Thousandths() == 0 {
			continue // a shadow: nothing has changed
		}
		res.Consumed = sluice.Thousandths(res.Consumed.Thousandths() + results[n].Consumed.Thousandths())
		res.Remaining, res.Free, res.ResetAfter = results[n].Remaining, results[n].Free, results[n].ResetAfter
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
	m, err := s.peekOnce(ctx, &sluice.Take{Demands: t.Demands[i : i+1], Ticket: t.Ticket}, [][]int{{0}})
	if err == nil {
		res.RetryAfter, res.LatestAfter = m.decision.Results[0].RetryAfter, m.decision.Results[0].LatestAfter
	}
	return err
}
