package limitstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// Adjust consumes or refunds unconditionally.
func (s *Store) Adjust(ctx context.Context, changes []sluice.Demand, d *sluice.Decision) error {
	if err := s.db.Ready(ctx); err != nil {
		return err
	}
	results := slices.Grow(d.Results[:0], len(changes))[:len(changes)]
	at := int64(0)
	err := s.slotBySlot(len(changes), func(i int) *sluice.Key { return &changes[i].Key }, func(which []int) error {
		t, err := s.adjust(ctx, pick(changes, which), which, results)
		at = max(at, t)
		return err
	})
	if err != nil {
		return err
	}
	*d = sluice.Decision{Allowed: true, Source: sluice.FromStore, Time: time.UnixMicro(at), Demands: changes, Results: results}
	d.Conclude()
	return nil
}

// adjust adjusts what can be done in one call, and fills in those of all
// results that which numbers.
func (s *Store) adjust(ctx context.Context, changes []sluice.Demand, which []int, results []sluice.Result) (at int64, err error) {
	err = s.withWindows(func(now int64) error {
		r := request{exact: true}
		if err := s.add(&r, changes, now); err != nil {
			return err
		}
		reply, err := s.call(ctx, r.first(header(adjustment)), &r)
		if err != nil {
			return err
		}
		if err := checkReply(reply, &r, len(changes)*(resultSize+moreSize)); err != nil {
			return err
		}
		at = readNumber(reply[1:])
		for i := range changes {
			part, res := reply[answerSize+i*(resultSize+moreSize):], &results[which[r.demand(i)]]
			readResult(part, res)
			readMore(part[resultSize:], res)
		}
		return nil
	})
	return at, err
}

// checkReply is an error unless a reply says that something was done and has
// as many bytes as that takes.
func checkReply(reply string, r *request, more int) error {
	if len(reply) < answerSize {
		return errReply
	}
	if err := statusError(reply, r); err != nil {
		return err
	}
	if len(reply) != answerSize+more {
		return errReply
	}
	return nil
}

// slotBySlot does something to all of n things with keys: at once if that can
// be done, or record by record in a cluster. If it fails after the first, some
// of it has happened.
func (s *Store) slotBySlot(n int, key func(int) *sluice.Key, do func(which []int) error) error {
	if !s.db.Cluster || n < 2 {
		return do(upTo(n))
	}
	for i, which := range byRecord(n, key) {
		if err := do(which); err != nil {
			if i > 0 {
				return fmt.Errorf("after %d of its slots: %w", i, afterSome(err))
			}
			return err
		}
	}
	return nil
}

// byRecord groups things by the record of their key, in the order in which
// the records first come.
func byRecord(n int, key func(int) *sluice.Key) (groups [][]int) {
	for i := range n {
		k := key(i)
		at := slices.IndexFunc(groups, func(g []int) bool { return sameRecord(key(g[0]), k) })
		if at < 0 {
			at = len(groups)
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], i)
	}
	return groups
}

// afterSome is an error of a call of which a part has already happened.
func afterSome(err error) error { return fmt.Errorf("%w: %w", sluice.ErrUnknown, err) }

func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func pick[T any](from []T, which []int) []T {
	if len(from) == len(which) {
		return from
	}
	picked := make([]T, len(which))
	for i, n := range which {
		picked[i] = from[n]
	}
	return picked
}
