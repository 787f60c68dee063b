package advance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// returns lets go of all that l has in hand, to be given back. The caller
// holds the lock.
func (l *local) returns(all []sluice.HoldReturn) []sluice.HoldReturn {
	all = l.settle.giveUp(l, all)
	for i := range l.holds {
		all = l.holds[i].giveUp(l, all)
	}
	return all
}

// giveUp lets go of one hold, if it is one and nothing of it may yet be given
// back.
func (h *hold) giveUp(l *local, all []sluice.HoldReturn) []sluice.HoldReturn {
	if h.id.Seq == 0 || h.pending > 0 {
		return all
	}
	all = append(all, sluice.HoldReturn{Key: l.key, Limit: l.limit, ID: h.id, Spent: h.amount - h.left})
	*h = hold{}
	return all
}

// giveBack returns holds. Nothing is sent twice: after an error they count as
// spent once they expire.
func (s *Store) giveBack(ctx context.Context, returns []sluice.HoldReturn) error {
	if s.table.ordered {
		slices.SortFunc(returns, func(a, b sluice.HoldReturn) int { return cmp.Compare(a.ID.Seq, b.ID.Seq) })
	}
	var errs []error
	for len(returns) > 0 {
		n := min(len(returns), askBatch)
		if err := s.inner.Return(ctx, returns[:n]); err != nil {
			errs = append(errs, err)
		} else {
			s.stats.returned.Add(int64(n))
		}
		returns = returns[n:]
	}
	return errors.Join(errs...)
}

// returnOne gives back what is held of one bucket, and reports whether any of
// it can be of use to others.
func (s *Store) returnOne(ctx context.Context, k *sluice.Key) bool {
	sh := &s.table.shards[s.table.shard(k)]
	now, epoch := s.clock.now()
	sh.mu.Lock()
	l := sh.byKey[*k]
	if l == nil || l.available(now, epoch) == 0 {
		sh.mu.Unlock()
		return false
	}
	returns := l.returns(nil)
	l.denyUntil, l.shortOf = 0, 0 // there will be more
	sh.mu.Unlock()
	return s.giveBack(ctx, returns) == nil
}

// returnAll gives everything back.
func (s *Store) returnAll(ctx context.Context) error {
	var returns []sluice.HoldReturn
	for i := range s.table.shards {
		sh := &s.table.shards[i]
		sh.mu.Lock()
		for _, l := range sh.byKey {
			returns = l.returns(returns)
		}
		sh.mu.Unlock()
	}
	return s.giveBack(ctx, returns)
}

// housekeep gives back what idle buckets hold, reports what was used up, and
// forgets buckets that are not used any more.
func (s *Store) housekeep() {
	ticker := time.NewTicker(time.Second / 4)
	defer ticker.Stop()
	failing := false
	for part := 0; ; part = (part + 1) % 4 {
		select {
		case <-s.closing.Done():
			return
		case <-ticker.C:
		}
		var returns []sluice.HoldReturn
		for i := part; i < tableShards; i += 4 {
			returns = s.tidy(&s.table.shards[i], returns)
		}
		if len(returns) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(s.closing, time.Second)
		err := s.giveBack(ctx, returns)
		cancel()
		if err != nil && !failing && s.closing.Err() == nil { // once for each outage
			s.config.Log.Warn("held tokens not returned: they come back when their holds expire", "holds", len(returns), "error", err)
		}
		failing = err != nil
	}
}

func (s *Store) tidy(sh *tableShard, returns []sluice.HoldReturn) []sluice.HoldReturn {
	now, epoch := s.clock.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for k, l := range sh.byKey {
		if l.asking != nil {
			continue
		}
		l.available(now, epoch) // drops what cannot be trusted
		if now-l.used > returnAfter {
			returns = l.settle.giveUp(l, returns)
			for i := range l.holds {
				returns = l.holds[i].giveUp(l, returns)
			}
			if now > l.denyUntil {
				delete(sh.byKey, k)
			}
			continue
		}
		returns = l.settle.giveUp(l, returns)
		for i := range l.holds {
			if h := &l.holds[i]; h.until-now < returnBefore {
				returns = h.giveUp(l, returns)
			}
		}
	}
	return returns
}
