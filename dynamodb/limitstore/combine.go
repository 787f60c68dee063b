package limitstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/internal/combine"
)

// A plain take of one item that comes while another of this process is under way
// waits for it, and then all that have come are decided one after the other and
// written at once. So an item that many callers want costs a few requests however many
// they are, and they do not make each other's writes fail.

// request is a plain take that is sent, alone or together with others.
type request struct {
	combine.Ticket
	take  sluice.Take // with its own copy of the demands: the caller may have left
	specs []*bucket.Spec
	d     sluice.Decision
	err   error
}

// maxTakes is how many takes are written at once.
const maxTakes = 256

var errBehind = fmt.Errorf("dynamodb: %w: the calls before got no answer in time", sluice.ErrUnavailable)

func (s *Store) combine() {
	s.lanes.Start(&combine.Rules[*request]{
		Alone: func(ctx context.Context, r *request) error {
			return errors.Join(s.takeAll(ctx, []*request{r}), r.err)
		},
		Send:     s.send,
		Ready:    func(int, int, int) bool { return false },
		Size:     func(waiting []*request) int { return min(len(waiting), maxTakes) },
		Patience: s.db.Config.Timeout, Behind: errBehind,
	})
}

// isPlain reports whether a take has no more to it than its demands, all of one item.
func isPlain(t *sluice.Take) bool {
	if t.ID != "" || t.Peek || t.Ticket.ID != (sluice.HoldID{}) {
		return false
	}
	first := subjectOf(&t.Demands[0].Key)
	return !slices.ContainsFunc(t.Demands, func(d sluice.Demand) bool { return subjectOf(&d.Key) != first })
}

// takePlain decides a plain take, alone or together with others.
func (s *Store) takePlain(ctx context.Context, t *sluice.Take, specs []*bucket.Spec, d *sluice.Decision) error {
	r := &request{take: *t, specs: specs}
	r.take.Demands = slices.Clone(t.Demands)
	key := subjectOf(&t.Demands[0].Key).key()
	switch lost, err := s.lanes.Do(ctx, key.PK+"\x00"+key.SK, r); {
	case lost:
		return fmt.Errorf("dynamodb: %w: %w", sluice.ErrUnknown, err)
	case err != nil && err == ctx.Err(): // it was not sent
		return fmt.Errorf("%w: %w", errBusy, err)
	case err != nil:
		return err
	}
	results := append(d.Results[:0], r.d.Results...)
	*d = r.d
	d.Demands, d.Results = t.Demands, results
	return nil
}

func (s *Store) send(batch []*request) {
	ctx, cancel := context.WithTimeout(s.db.Life(), s.db.Config.Timeout)
	defer cancel()
	err := s.takeAll(ctx, batch)
	for _, r := range batch {
		r.Answer(errors.Join(err, r.err))
	}
}

// takeAll decides takes of one item, in order.
func (s *Store) takeAll(ctx context.Context, batch []*request) error {
	sub := subjectOf(&batch[0].take.Demands[0].Key)
	keys := []dynamodb.Key{sub.key()}
	unlock, err := s.locks.lock(ctx, keys)
	if err != nil {
		return err
	}
	defer unlock()
	seen := images{}
	hint, guessed := s.hints.get(keys[0])
	if guessed {
		seen[keys[0]] = hint
	}
	if w, ok := s.speculation(sub, batch); ok && (!guessed || w.likely(hint)) {
		guessed = false
		if done, err := s.speculate(ctx, w, seen); done || err != nil {
			return err
		}
	}
	return s.changeLocked(ctx, keys, []subject{sub}, "", seen, guessed, func(c *change) error {
		for _, r := range batch {
			_, r.err = c.take(&r.take, r.specs, &r.d)
		}
		return nil
	})
}
