package advance

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Take decides with tokens in hand where it can, and asks the inner store
// where it must.
func (s *Store) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if t.Peek || t.ID != "" || t.UpTo || t.Ticket.ID.Node != 0 || hopeless(t) {
		return s.exact(ctx, t, d)
	}
	var few [4]seat
	seats := few[:0]
	if len(t.Demands) > len(few) {
		seats = make([]seat, 0, len(t.Demands))
	}
	for i := range t.Demands {
		hash := s.table.hash(&t.Demands[i].Key)
		seats = append(seats, seat{hash: hash, shard: uint32(hash % tableShards)})
	}
	for try := 0; ; try++ {
		now, epoch := s.clock.now()
		s.lock(seats)
		switch s.look(seats, t.Demands, now, epoch, try) {
		case allLocal:
			s.spendAll(seats, t.Demands, now, epoch)
			s.answer(t, d, seats, now, epoch, sluice.FromHeld)
			s.unlock(seats)
			s.stats.held.Add(1)
			return nil
		case refused:
			s.answer(t, d, seats, now, epoch, sluice.FromDenyCache)
			s.unlock(seats)
			s.stats.denied.Add(1)
			return nil
		case wait:
			s.askForAll(seats, t.Demands, now)
			s.unlock(seats)
			if err := s.await(ctx, seats); err != nil {
				return err
			}
		case askStore:
			s.spendAll(seats, t.Demands, now, epoch)
			s.askForAll(seats, t.Demands, now) // for the next take
			probing(seats, t.Demands, now)
			inStore(seats, t.Demands, +1)
			s.unlock(seats)
			again, err := s.mixed(ctx, t, d, seats, now, try)
			if !again {
				return err
			}
		}
	}
}

// hopeless reports whether t can never pass, which the store says best.
func hopeless(t *sluice.Take) bool {
	for i := range t.Demands {
		if dm := &t.Demands[i]; dm.Charge().Thousandths() > dm.Limit.Capacity().Thousandths() && !dm.Shadow {
			return true
		}
	}
	return false
}

// seat is where one demand stands.
type seat struct {
	hash  uint64
	shard uint32
	local *local // nil: the store decides, and nothing is remembered
	ask   *ask   // waited for
	what  kind
	of    [2]uint64 // the holds that were spent of
}

type kind uint8

const (
	inHand  kind = iota // tokens are here
	missing             // could be held, but there is not enough
	exactly             // the store decides
	denied              // refused, and that still stands
	turned              // refused, since others ask for what can have come
)

type outcome uint8

const (
	allLocal outcome = iota
	refused
	wait
	askStore
)

// holdable reports whether tokens for the demand can be held in advance.
func holdable(dm *sluice.Demand) bool {
	if dm.Critical || dm.Shadow || dm.CountRefused {
		return false
	}
	switch dm.Limit.Algorithm {
	case sluice.TokenBucket, sluice.FixedWindow:
		c := dm.Limit.Capacity().Thousandths()
		return c >= MinCapacity && dm.Charge().Thousandths() <= c/shareOfCapacity
	}
	return false
}

// look finds out what can be decided here. The caller holds all locks. A refusal
// that is remembered is the answer only if it is the whole answer: if another
// limit might have the caller wait for longer, the store says so.
func (s *Store) look(seats []seat, demands []sluice.Demand, now time.Duration, epoch uint64, try int) outcome {
	result, doubtful := allLocal, false
	for i := range seats {
		st, dm := &seats[i], &demands[i]
		st.what, st.local, st.ask = exactly, nil, nil
		if !dm.Critical && dm.Limit.Algorithm != sluice.Concurrency {
			st.local = s.table.shard(st.hash).local(&dm.Key, st.hash, &dm.Limit, s.table.most)
		}
		if l := st.local; l != nil {
			if l.limit != dm.Limit {
				s.start(l, dm.Limit)
			}
			cost := dm.Charge().Thousandths()
			canHold := holdable(dm)
			switch {
			case canHold && l.available(now, epoch) >= cost:
				st.what = inHand
				continue
			case dm.Shadow || dm.CountRefused: // the store counts them
			case l.denied(cost, now):
				st.what, result = denied, refused
				continue
			case l.spokenFor(cost, now):
				st.what, result = turned, refused
				continue
			case canHold && now >= l.exactOnly && !l.probe && try < 3:
				st.what = missing
			}
		}
		doubtful = doubtful || st.local == nil || !st.local.fits(dm.Charge().Thousandths(), now)
		if result != refused {
			if st.what == missing && result != askStore {
				result = wait
			} else {
				result = askStore
			}
		}
	}
	if result == refused && doubtful {
		return askStore
	}
	return result
}

// start makes l ready for another limit. What was held under the old one is
// returned, and what a take that is under way has spent of it counts as used.
func (s *Store) start(l *local, limit sluice.Limit) {
	l.limit, l.spec, l.known = limit, nil, false
	for _, h := range []*hold{&l.settle, &l.holds[0], &l.holds[1]} {
		h.pending = 0
	}
	s.sendSoon(l.returns(nil)...)
	l.unsaid = 0
	l.denyUntil, l.shortOf = 0, 0
	l.asked, l.spent, l.turned, l.rate = 0, 0, 0, 0
}

// spendAll spends what is in hand, and asks for more where it runs low.
func (s *Store) spendAll(seats []seat, demands []sluice.Demand, now time.Duration, epoch uint64) {
	for i := range seats {
		st := &seats[i]
		if st.what != inHand {
			continue
		}
		cost := demands[i].Charge().Thousandths()
		st.of = st.local.spend(cost, now)
		if st.local.wants(now, epoch) {
			s.askFor(st.local, &s.table.shards[st.shard], cost)
		}
	}
}

// askForAll asks for what is missing.
func (s *Store) askForAll(seats []seat, demands []sluice.Demand, now time.Duration) {
	for i := range seats {
		st := &seats[i]
		if st.what != missing {
			continue
		}
		if st.ask = s.askFor(st.local, &s.table.shards[st.shard], demands[i].Charge().Thousandths()); st.ask != nil {
			st.local.waiting += demands[i].Charge().Thousandths()
		} else {
			st.local.exactOnly = now + gap
		}
	}
}

// await waits for what was asked.
func (s *Store) await(ctx context.Context, seats []seat) error {
	for i := range seats {
		if a := seats[i].ask; a != nil {
			select {
			case <-a.done:
			case <-s.closing.Done(): // the store says so
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// answer fills in a decision that was made here.
func (s *Store) answer(t *sluice.Take, d *sluice.Decision, seats []seat, now time.Duration, epoch uint64, source sluice.Source) {
	results := slices.Grow(d.Results[:0], len(seats))[:len(seats)]
	*d = sluice.Decision{
		Allowed: source == sluice.FromHeld, Source: source, Time: s.clock.storeTime(now),
		Demands: t.Demands, Results: results,
	}
	for i := range seats {
		st, cost := &seats[i], t.Demands[i].Charge().Thousandths()
		switch st.what {
		case denied:
			s.figures(st.local, now, &results[i])
			results[i].RetryAfter, results[i].Held = st.local.deniedFor(cost, now), st.local.denyHeld
			st.local.refused += cost
		case turned:
			s.figures(st.local, now, &results[i])
			results[i].RetryAfter = st.local.retryIn(cost, now)
			st.local.refused += cost
			st.local.turned += cost
		case inHand:
			s.spentOf(st.local, cost, d.Allowed, now, &results[i])
		default:
			s.figures(st.local, now, &results[i]) // not asked: it fits
			results[i].Fits = true
		}
	}
	d.Conclude()
}

// spentOf is the answer of a bucket whose tokens are in hand.
func (s *Store) spentOf(l *local, cost int64, allowed bool, now time.Duration, r *sluice.Result) {
	s.figures(l, now, r)
	if r.Fits = true; allowed {
		r.Consumed = sluice.Thousandths(cost)
	}
}

// figures tells what is known here of a bucket, and nothing else.
func (s *Store) figures(l *local, now time.Duration, r *sluice.Result) {
	*r = sluice.Result{}
	if l == nil || !l.known {
		r.Unknown = true
		return
	}
	if l.limit.Algorithm == sluice.TokenBucket {
		back := l.refilled(now)
		r.Remaining = sluice.Thousandths(min(l.limit.Capacity().Thousandths(), l.remaining+back-l.unsaid))
		r.Free = sluice.Thousandths(min(r.Remaining.Thousandths(), l.free+back))
		r.ResetAfter = l.dueIn(l.limit.Capacity().Thousandths() - r.Remaining.Thousandths())
		return
	}
	r.Remaining = sluice.Thousandths(l.left(now))
	r.Free = sluice.Thousandths(min(r.Remaining.Thousandths(), l.outlook(now)))
	switch l.limit.Algorithm {
	case sluice.FixedWindow:
		at := s.clock.storeTime(now).UnixMicro()
		start, end := l.window(at)
		if s.clock.storeTime(l.told).UnixMicro() < start {
			*r = sluice.Result{Unknown: true} // it was another window
			return
		}
		if r.Remaining.Thousandths() < l.limit.Capacity().Thousandths() {
			r.ResetAfter = time.Duration(end-at) * time.Microsecond
		}
	default:
		if l.resets <= now && r.Remaining.Thousandths() < l.limit.Capacity().Thousandths() {
			*r = sluice.Result{Unknown: true} // what was used is over by now, or the store's clock stands
			return
		}
		r.ResetAfter = max(l.resets-now, 0)
	}
}

// window is the fixed window that a time of the store is in.
func (l *local) window(at int64) (start, end int64) {
	if l.spec == nil {
		spec, err := bucket.Compile(l.limit)
		if err != nil {
			return at, at // the store has said so
		}
		l.spec = spec
	}
	return l.spec.Window(at)
}

// lock locks the shards of all seats in order, each once.
func (s *Store) lock(seats []seat) {
	for n := next(seats, -1); n >= 0; n = next(seats, n) {
		s.table.shards[n].mu.Lock()
	}
}

func (s *Store) unlock(seats []seat) {
	for n := next(seats, -1); n >= 0; n = next(seats, n) {
		s.table.shards[n].mu.Unlock()
	}
}

// next is the lowest shard above after that a seat is in, or -1.
func next(seats []seat, after int) int {
	least := -1
	for i := range seats {
		if n := int(seats[i].shard); n > after && (least < 0 || n < least) {
			least = n
		}
	}
	return least
}
