package advance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// exact has the store decide.
func (s *Store) exact(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	s.stats.exact.Add(1)
	if t.UpTo && !t.Peek { // what is in our own hand is there, too
		keys := make([]sluice.Key, len(t.Demands))
		for i := range t.Demands {
			keys[i] = t.Demands[i].Key
		}
		s.handIn(ctx, keys)
	}
	sent, _ := s.clock.now()
	err := s.inner.Take(ctx, t, d)
	if err == nil && !t.Peek && s.returnHeld(ctx, t, d) {
		err = s.inner.Take(ctx, t, d)
	}
	if t.Ticket.ID.Node != 0 && (err != nil || !d.Allowed) {
		s.stands(t, d)
	}
	if err == nil && d.Source == sluice.FromStore && !d.Repeated {
		s.learn(d, sent)
		if t.Peek && !t.UpTo {
			s.foresee(t, d)
		}
	}
	return err
}

// stands forgets refusals of buckets that a caller of this node may now stand in
// line for: whoever comes after it has to wait for longer. What the caller itself
// is told is better than that, and not remembered.
func (s *Store) stands(t *sluice.Take, d *sluice.Decision) {
	for i := range t.Demands {
		sh, l := s.table.lock(&t.Demands[i].Key)
		if l != nil {
			l.denyUntil, l.shortOf = 0, 0
			l.stood = d.Time.UnixMicro()
		}
		sh.mu.Unlock()
	}
}

// learn remembers what the store said when it was asked at sent, and takes what
// was spent here out of what it says remains.
func (s *Store) learn(d *sluice.Decision, sent time.Duration) {
	now, epoch := s.clock.now()
	for i := range d.Results {
		dm, r := &d.Demands[i], &d.Results[i]
		sh, l := s.table.lock(&dm.Key)
		if l != nil && l.limit == dm.Limit && !r.Unknown {
			l.note(r.Remaining.Thousandths(), r.Free.Thousandths(), sent, d.Time)
			l.resets = now + r.ResetAfter
			l.correct(r, d.Time, now, epoch)
		}
		sh.mu.Unlock()
	}
}

// foresee turns what the store would decide into what this node would: tokens
// in hand admit what the store alone refuses, and a remembered refusal stands.
func (s *Store) foresee(t *sluice.Take, d *sluice.Decision) {
	now, epoch := s.clock.now()
	d.Allowed = true
	for i := range d.Results {
		dm, r := &t.Demands[i], &d.Results[i]
		sh, l := s.table.lock(&dm.Key)
		if cost := dm.Charge().Thousandths(); l != nil && l.limit == dm.Limit && r.RetryAfter != sluice.Never && !dm.Critical && !dm.Shadow && !dm.CountRefused {
			have := l.available(now, epoch)
			switch {
			case holdable(dm) && have >= cost, r.Held && have+r.Free.Thousandths() >= cost:
				r.Fits, r.Held, r.RetryAfter, r.LatestAfter = true, false, 0, 0
			case r.Fits && l.denied(cost, now):
				r.Fits, r.Held, r.RetryAfter = false, l.denyHeld, l.deniedFor(cost, now)
			}
		}
		sh.mu.Unlock()
		d.Allowed = d.Allowed && (r.Fits || dm.Shadow)
	}
	d.Conclude()
}

// correct takes what was spent here out of what the store said remains.
func (s *Store) correct(dm *sluice.Demand, r *sluice.Result, at time.Time) {
	now, epoch := s.clock.now()
	sh, l := s.table.lock(&dm.Key)
	defer sh.mu.Unlock()
	if l != nil && l.limit == dm.Limit {
		l.correct(r, at, now, epoch)
	}
}

// returnHeld gives back what this node holds of buckets that refused, or said to
// wait for longer, because of what nodes hold, and reports whether the store had
// better decide again.
func (s *Store) returnHeld(ctx context.Context, t *sluice.Take, d *sluice.Decision) bool {
	if d.Allowed || d.Repeated || d.Source != sluice.FromStore { // what may have happened is not asked again
		return false
	}
	returned := false
	for i := range d.Results {
		if !d.Results[i].Fits && s.returnOne(ctx, &t.Demands[i], &d.Results[i]) {
			returned = true
		}
	}
	return returned
}

// probing refuses the others while the store decides for one of them.
func probing(seats []seat, demands []sluice.Demand, now time.Duration) {
	for i := range seats {
		if st := &seats[i]; st.what == exactly && st.local != nil && st.local.probe {
			retry, held := st.local.denyRetry, st.local.denyHeld
			st.local.deny(demands[i].Charge().Thousandths(), gap, now)
			st.local.denyHeld = held
			st.local.denyRetry = max(st.local.denyRetry, retry)
		}
	}
}

// inStore counts, or with -1 no longer counts, what the store is asked to
// decide, and what is spent here in case it allows that.
func inStore(seats []seat, demands []sluice.Demand, sign int64) {
	for i := range seats {
		switch st := &seats[i]; {
		case st.what == inHand:
			st.local.pend(st.of, int(sign))
		case st.local != nil:
			st.local.inStore += sign * demands[i].Charge().Thousandths()
		}
	}
}

// mixed has the store decide what cannot be decided here, in one call made at
// sent. What is in hand is already spent. If meanwhile all that the store
// refused has come to hand, the take is to be looked at again.
func (s *Store) mixed(ctx context.Context, t *sluice.Take, d *sluice.Decision, seats []seat, sent time.Duration, try int) (again bool, err error) {
	asked := *t
	asked.Demands = make([]sluice.Demand, 0, len(seats))
	for i := range seats {
		if seats[i].what != inHand {
			asked.Demands = append(asked.Demands, t.Demands[i])
		}
	}
	var got sluice.Decision
	s.stats.exact.Add(1)
	err = s.inner.Take(ctx, &asked, &got)
	again = err == nil && try < 3 && s.cameToHand(&asked, &got, seats)
	if err == nil && !again && s.returnHeld(ctx, &asked, &got) {
		err = s.inner.Take(ctx, &asked, &got)
	}
	now, epoch := s.clock.now()
	s.lock(seats)
	defer s.unlock(seats)
	inStore(seats, t.Demands, -1)
	if again || err == nil && !got.Allowed || err != nil && !errors.Is(err, sluice.ErrUnknown) {
		s.giveBackAll(seats, t.Demands, now, epoch)
	}
	if !again && err == nil {
		s.merge(t, d, &got, seats, sent, now, epoch)
	}
	return again, err
}

// cameToHand reports whether the store refused only for want of tokens that
// are in our own hand by now, because an ask was answered since.
func (s *Store) cameToHand(asked *sluice.Take, got *sluice.Decision, seats []seat) bool {
	if got.Allowed {
		return false
	}
	now, epoch := s.clock.now()
	s.lock(seats)
	defer s.unlock(seats)
	next := 0
	for i := range seats {
		st := &seats[i]
		if st.what == inHand {
			continue
		}
		r, dm := &got.Results[next], &asked.Demands[next]
		next++
		if r.Fits || dm.Shadow {
			continue
		}
		if !r.Held || st.local == nil || !holdable(dm) || st.local.available(now, epoch) < dm.Charge().Thousandths() {
			return false
		}
	}
	return true
}

// giveBackAll undoes spendAll.
func (s *Store) giveBackAll(seats []seat, demands []sluice.Demand, now time.Duration, epoch uint64) {
	for i := range seats {
		if seats[i].what == inHand {
			seats[i].local.giveBack(demands[i].Charge().Thousandths(), now, epoch)
		}
	}
}

// merge makes one answer of the store's and ours, and remembers refusals.
func (s *Store) merge(t *sluice.Take, d, got *sluice.Decision, seats []seat, sent, now time.Duration, epoch uint64) {
	results := slices.Grow(d.Results[:0], len(seats))[:len(seats)]
	*d = *got
	d.Demands, d.Results = t.Demands, results
	next := 0
	for i := range seats {
		st, dm := &seats[i], &t.Demands[i]
		if st.what == inHand {
			s.spentOf(st.local, dm.Charge().Thousandths(), d.Allowed, now, &results[i])
			continue
		}
		results[i] = got.Results[next]
		next++
		if st.local != nil && got.Source == sluice.FromStore {
			st.local.heard(&results[i], dm, sent, now, d.Time)
			st.local.correct(&results[i], d.Time, now, epoch)
		}
	}
	d.Conclude()
}

// heard learns from what the store said of the bucket when it was asked at
// sent, and says when it is asked again if that is later than it could be.
func (l *local) heard(r *sluice.Result, dm *sluice.Demand, sent, now time.Duration, at time.Time) {
	cost, retry := dm.Charge().Thousandths(), r.RetryAfter
	if l.refused > 0 && holdable(dm) && retry != sluice.Never {
		retry = max(retry, l.breather())
	}
	if !r.Fits && retry > r.RetryAfter { // until then nobody is asked
		r.RetryAfter, r.LatestAfter = retry, max(r.LatestAfter, retry)
	}
	shortOf := int64(0)
	if !r.Fits || r.Free.Thousandths() < cost {
		shortOf = cost
	}
	l.hear(r.Remaining.Thousandths(), r.Free.Thousandths(), shortOf, sent, at)
	l.resets = now + r.ResetAfter
	l.used, l.probe = now, false
	switch {
	case dm.CountRefused || dm.Shadow || l.overtaken(at):
	case r.Fits:
		l.denyUntil = 0
	case r.Held:
		l.denyForHeld(cost, retry, now)
	default:
		l.deny(cost, retry, now)
	}
}
