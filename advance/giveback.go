package advance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
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
	all = append(all, sluice.HoldReturn{Key: l.key, Limit: l.limit, ID: h.id, Spent: sluice.Thousandths(h.amount - h.left)})
	*h = hold{}
	return all
}

// giveBack returns holds.
func (s *Store) giveBack(ctx context.Context, returns []sluice.HoldReturn) error {
	if len(returns) == 0 {
		return nil
	}
	if err := s.inner.Return(ctx, returns); err != nil {
		s.sendSoon(returns...)
		return err
	}
	s.confirmed(returns...)
	return nil
}

// unconfirmed are returns that the store may not have heard, by their holds. They
// are sent again while the holds can live. To the store a hold that was returned,
// or has expired, is unknown, so a return that comes twice or late does nothing.
type unconfirmed struct {
	mu  sync.Mutex
	all map[sluice.HoldID]unconfirmedReturn
}

type unconfirmedReturn struct {
	sluice.HoldReturn
	until time.Duration
}

// sendSoon has the housekeeper send returns, until the store has heard them.
func (s *Store) sendSoon(returns ...sluice.HoldReturn) {
	now, _ := s.clock.now()
	u := &s.unconfirmed
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[sluice.HoldID]unconfirmedReturn{}
	}
	for i := range returns {
		if _, there := u.all[returns[i].ID]; !there {
			u.all[returns[i].ID] = unconfirmedReturn{returns[i], now + holdFor}
		}
	}
}

// confirmed forgets returns that the store has heard.
func (s *Store) confirmed(returns ...sluice.HoldReturn) {
	s.stats.returned.Add(int64(len(returns)))
	u := &s.unconfirmed
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range returns {
		delete(u.all, returns[i].ID)
	}
}

// unheard appends the returns that are to be sent again.
func (s *Store) unheard(returns []sluice.HoldReturn) []sluice.HoldReturn {
	now, _ := s.clock.now()
	u := &s.unconfirmed
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, r := range u.all {
		if now > r.until {
			delete(u.all, id)
			continue
		}
		returns = append(returns, r.HoldReturn)
	}
	return returns
}

// report returns holds, and hears what all nodes together have used by then. Each
// node knows only what it spent itself, so the sum is known to whoever reports
// last, and to nobody if that is not told.
func (s *Store) report(ctx context.Context, returns []sluice.HoldReturn) error {
	if s.table.ordered {
		slices.SortFunc(returns, func(a, b sluice.HoldReturn) int { return cmp.Compare(a.ID.Seq, b.ID.Seq) })
	}
	var errs []error
	for batch := range slices.Chunk(returns, askBatch) {
		errs = append(errs, s.reportBatch(ctx, batch))
	}
	return errors.Join(errs...)
}

// reportBatch asks for more than there can be, after what is returned: nothing is
// granted, and the answer says what is left.
func (s *Store) reportBatch(ctx context.Context, returns []sluice.HoldReturn) error {
	requests, grants := make([]sluice.HoldRequest, len(returns)), make([]sluice.Grant, len(returns))
	for i := range returns {
		r := &returns[i]
		requests[i] = sluice.HoldRequest{
			Key: r.Key, Limit: r.Limit, TTL: holdFor, Min: sluice.Thousandths(r.Limit.Capacity().Thousandths() + 1), Previous: r.ID, Spent: r.Spent,
		}
	}
	sent, _ := s.clock.now()
	err := s.inner.Hold(ctx, requests, grants)
	if maybe(err) {
		s.sendSoon(returns...)
		return err
	}
	// Those that were not asked for can be returned all the same.
	unasked := returns[:0]
	for i := range returns {
		if err != nil || !asked(&grants[i]) {
			unasked = append(unasked, returns[i])
			continue
		}
		s.confirmed(returns[i])
		s.heard(&requests[i], &grants[i], sent)
	}
	return s.giveBack(ctx, unasked)
}

// maybe reports whether a call that ended with err may have taken effect.
func maybe(err error) bool {
	return err != nil && (!errors.Is(err, sluice.ErrUnavailable) || errors.Is(err, sluice.ErrUnknown))
}

// asked reports whether a grant is an answer of the store. While the store
// recovers, only some keys are asked for.
func asked(g *sluice.Grant) bool { return g.RetryIn != 0 || g.Amount.Thousandths() > 0 }

// heard remembers what is left of a bucket after a report.
func (s *Store) heard(r *sluice.HoldRequest, g *sluice.Grant, sent time.Duration) {
	sh, l := s.table.lock(&r.Key)
	if l != nil && l.limit == r.Limit {
		l.note(g.Remaining.Thousandths(), g.Free.Thousandths(), sent, g.Now)
	}
	sh.mu.Unlock()
	s.tell(&r.Key)
}

// tell passes on what is known of a bucket when nobody has asked for it.
func (s *Store) tell(k *sluice.Key) {
	if s.config.Heard == nil {
		return
	}
	now, _ := s.clock.now()
	sh, l := s.table.lock(k)
	var figures sluice.Result
	s.figures(l, now, &figures)
	d := sluice.Demand{Key: *k}
	if l != nil {
		d.Limit = l.limit
	}
	sh.mu.Unlock()
	if !figures.Unknown {
		s.config.Heard(&d, &figures)
	}
}

// returnOne gives back what is held of a bucket if it is in the way of a demand
// that was refused, and reports whether any was. What was spent of it is used
// from then on and refilled, so the store knows better when there is enough.
func (s *Store) returnOne(ctx context.Context, dm *sluice.Demand, r *sluice.Result) bool {
	now, epoch := s.clock.now()
	sh, l := s.table.lock(&dm.Key)
	var returns []sluice.HoldReturn
	if l != nil && l.limit == dm.Limit {
		left := r.Remaining.Thousandths() - l.unsaidBy(now, epoch)
		if r.Held || l.limit.Algorithm == sluice.TokenBucket && r.RetryAfter != sluice.Never && r.RetryAfter > l.dueIn(dm.Charge().Thousandths()-left)+gap {
			if l.available(now, epoch) > 0 {
				l.denyUntil, l.shortOf = 0, 0 // there will be more
			}
			returns = l.returns(nil)
		}
	}
	sh.mu.Unlock()
	return len(returns) > 0 && s.report(ctx, returns) == nil
}

// handIn gives back what is held of some buckets, before something is done with
// them that depends on what was spent. If that fails, it is done all the same.
func (s *Store) handIn(ctx context.Context, keys []sluice.Key) {
	var returns []sluice.HoldReturn
	for i := range keys {
		sh, l := s.table.lock(&keys[i])
		if l != nil {
			returns = l.returns(returns)
		}
		sh.mu.Unlock()
	}
	if err := s.report(ctx, returns); err != nil {
		s.config.Log.Debug("held tokens not returned before a call that depends on what was spent", "holds", len(returns), "error", err)
	}
}

// returnAll gives everything back.
func (s *Store) returnAll(ctx context.Context) error {
	returns := s.unheard(nil)
	for i := range s.table.shards {
		sh := &s.table.shards[i]
		sh.mu.Lock()
		for l := range sh.all() {
			returns = l.returns(returns)
		}
		sh.mu.Unlock()
	}
	return s.report(ctx, returns)
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
		returns := s.unheard(nil)
		for i := part; i < tableShards; i += 4 {
			returns = s.tidy(&s.table.shards[i], returns)
		}
		if len(returns) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(s.closing, time.Second)
		n := len(returns)
		err := s.report(ctx, returns)
		cancel()
		if err != nil && !failing && s.closing.Err() == nil { // once for each outage
			s.config.Log.Warn("held tokens not returned yet: this is tried again until their holds expire, then they count as used", "holds", n, "error", err)
		}
		failing = err != nil
	}
}

func (s *Store) tidy(sh *tableShard, returns []sluice.HoldReturn) []sluice.HoldReturn {
	now, epoch := s.clock.now()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for l := range sh.all() {
		if l.asking != nil {
			continue
		}
		l.available(now, epoch) // drops what cannot be trusted
		if now-l.used > returnAfter {
			n := len(returns)
			if returns = l.returns(returns); len(returns) == n && now > l.denyUntil {
				sh.forget(l) // not before it was heard what is left
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
