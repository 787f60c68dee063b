package limitstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
)

// Hold grants tokens ahead of need, all requests in one call if they can be.
func (s *Store) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	if err := s.db.Ready(ctx); err != nil {
		return err
	}
	for i := range requests { // before anything happens
		if _, err := s.limits.get(requests[i].Limit); err != nil {
			return err
		}
	}
	var bad spared
	err := s.inBatches(len(requests), func(i int) *sluice.Key { return &requests[i].Key }, func(which []int) error {
		return bad.others(which, 2, func(which []int) error { return s.hold(ctx, requests, which, grants) })
	})
	if err != nil || len(bad.which) == len(requests) {
		return cmp.Or(err, bad.err)
	}
	if len(bad.which) > 0 {
		good := slices.IndexFunc(upTo(len(requests)), func(i int) bool { return !slices.Contains(bad.which, i) })
		for _, i := range bad.which { // a take tells what is wrong with them
			grants[i] = sluice.Grant{Now: grants[good].Now}
		}
	}
	return nil
}

func (s *Store) hold(ctx context.Context, requests []sluice.HoldRequest, which []int, grants []sluice.Grant) error {
	return s.withWindows(func(now int64) error {
		var r request
		for _, i := range which {
			q := &requests[i]
			if err := s.add(&r, []sluice.Demand{{Key: q.Key, Limit: q.Limit}}, now); err != nil {
				return err
			}
			r.arg(holdArg(q), &q.Key)
		}
		reply, err := s.call(ctx, r.first(header(holding)), &r)
		if err != nil {
			return err
		}
		if err := checkReply(reply, &r, len(which)*grantSize); err != nil {
			return err
		}
		for n, i := range which {
			readGrant(reply[answerSize+n*grantSize:], &grants[i])
		}
		return nil
	})
}

func holdArg(q *sluice.HoldRequest) string {
	b := make([]byte, 0, 64)
	b = appendNumber(b, max(q.Min.Thousandths(), 1))
	b = appendNumber(b, q.Max.Thousandths())
	b = appendNumber(b, q.TTL.Microseconds())
	b = appendNumber(b, q.Spent.Thousandths())
	return string(appendHoldID(appendHoldID(b, q.ID), q.Previous))
}

func appendHoldID(b []byte, id sluice.HoldID) []byte {
	b = binary.BigEndian.AppendUint64(b, id.Node)
	return binary.BigEndian.AppendUint64(b, id.Seq)
}

const grantSize = 49

func readGrant(s string, g *sluice.Grant) {
	*g = sluice.Grant{
		Recalled:  s[0]&1 != 0,
		Held:      s[0]&2 != 0,
		Amount:    sluice.Thousandths(readNumber(s[1:])),
		Remaining: sluice.Thousandths(readNumber(s[9:])),
		Now:       time.UnixMicro(readNumber(s[25:])),
		RetryIn:   wait(readNumber(s[33:])),
		Free:      sluice.Thousandths(readNumber(s[41:])),
	}
	if g.Amount.Thousandths() > 0 {
		g.Expires = time.UnixMicro(readNumber(s[17:]))
	}
}

// Return closes holds and removes tickets.
func (s *Store) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	if err := s.db.Ready(ctx); err != nil {
		return err
	}
	var bad spared
	err := s.inBatches(len(returns), func(i int) *sluice.Key { return &returns[i].Key }, func(which []int) error {
		return bad.others(which, 1, func(which []int) error {
			var r request
			for _, i := range which {
				back := &returns[i]
				b := appendHoldID(appendNumber(nil, back.Spent.Thousandths()), back.ID)
				r.arg(string(append(b, back.Key.Limit...)), &back.Key)
			}
			return s.do(ctx, returning, &r)
		})
	})
	return cmp.Or(err, bad.err)
}

// Reset makes buckets full again. Records that cannot be read are removed.
func (s *Store) Reset(ctx context.Context, keys []sluice.Key) error {
	if err := s.db.Ready(ctx); err != nil {
		return err
	}
	var bad spared
	err := s.inBatches(len(keys), func(i int) *sluice.Key { return &keys[i] }, func(which []int) error {
		return bad.others(which, 1, func(which []int) error {
			var r request
			for _, i := range which {
				r.arg(keys[i].Limit, &keys[i])
			}
			return s.do(ctx, resetting, &r)
		})
	})
	for _, i := range bad.which {
		if err == nil {
			err = s.remove(ctx, recordKey(&keys[i]))
		}
	}
	return err
}

// do calls the script for something that has no results.
func (s *Store) do(ctx context.Context, k kind, r *request) error {
	reply, err := s.call(ctx, r.first(header(k)), r)
	if err != nil {
		return err
	}
	return checkReply(reply, r, 0)
}

// remove deletes a record that cannot be read.
func (s *Store) remove(ctx context.Context, key string) error {
	if err := s.db.Client.Do(ctx, s.db.Client.B().Del().Key(key).Build()).Error(); err != nil {
		return redis.Error(err)
	}
	return nil
}

// maxBatch is how many things one call may be about: keys are numbered in a
// byte, and nobody else is served while the script runs.
const maxBatch = 128

// inBatches does something to n things that need not be done together.
func (s *Store) inBatches(n int, key func(int) *sluice.Key, do func(which []int) error) error {
	for from := 0; from < n; from += maxBatch {
		err := s.slotBySlot(min(maxBatch, n-from), func(i int) *sluice.Key { return key(from + i) }, func(which []int) error {
			shifted := make([]int, len(which))
			for i := range which {
				shifted[i] = which[i] + from
			}
			return do(shifted)
		})
		if err != nil {
			if from > 0 {
				return afterSome(err)
			}
			return err
		}
	}
	return nil
}
