package advance

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

const (
	askers   = 2   // calls for holds under way at once: few, so that each is for many
	askBatch = 128 // requests in one call
)

// ask is a request for tokens of one bucket that is under way. Callers
// that need them wait for done.
type ask struct {
	local *local
	shard *tableShard
	least int64
	done  chan struct{}
}

// askFor asks for more of l's tokens, unless that is under way. The caller
// holds the shard's lock. It returns the ask to wait for, or nil if so
// many are waiting that the store had better decide.
func (s *Store) askFor(l *local, sh *tableShard, least int64) *ask {
	if l.asking != nil {
		return l.asking
	}
	if s.closing.Err() != nil {
		return nil
	}
	a := &ask{local: l, shard: sh, least: least, done: make(chan struct{})}
	select {
	case s.asks <- a:
		l.asking = a
		return a
	default:
		return nil
	}
}

// ask sends requests, as many as there are in one call.
func (s *Store) ask() {
	batch := make([]*ask, 0, askBatch)
	requests := make([]sluice.HoldRequest, 0, askBatch)
	grants := make([]sluice.Grant, askBatch)
	for {
		batch = batch[:0]
		select {
		case a := <-s.asks:
			batch = append(batch, a)
		case <-s.closing.Done():
			return
		}
	more:
		for len(batch) < askBatch {
			select {
			case a := <-s.asks:
				batch = append(batch, a)
			default:
				break more
			}
		}
		requests = s.requests(batch, requests[:0])
		sent, epoch := s.clock.now()
		ctx, cancel := context.WithTimeout(s.closing, time.Second)
		err := s.inner.Hold(ctx, requests, grants[:len(batch)])
		cancel()
		received, _ := s.clock.now()
		s.stats.asked.Add(int64(len(batch)))
		for i, a := range batch {
			if err == nil {
				s.clock.heard(grants[i].Now, sent, received)
			}
			s.receive(a, &requests[i], &grants[i], err, sent, epoch)
			if err == nil {
				s.tell(&requests[i].Key)
			}
		}
	}
}

// requests says what to ask for. What was used up is reported along.
func (s *Store) requests(batch []*ask, requests []sluice.HoldRequest) []sluice.HoldRequest {
	for _, a := range batch {
		a.shard.mu.Lock()
		l := a.local
		now, epoch := s.clock.now()
		l.merge(a.least, now, epoch)
		most := l.want(now)
		r := sluice.HoldRequest{
			Key: l.key, Limit: l.limit, TTL: holdFor,
			ID:  sluice.HoldID{Node: s.node, Seq: s.seq.Add(1)},
			Min: sluice.Thousandths(min(a.least, most)), Max: sluice.Thousandths(most),
		}
		if l.settle.pending == 0 { // or some of it may yet be given back
			r.Previous, r.Spent = l.settle.id, sluice.Thousandths(l.settle.amount-l.settle.left)
			l.settle = hold{}
		}
		l.asked, l.spent, l.turned = now, 0, 0
		a.shard.mu.Unlock()
		requests = append(requests, r)
	}
	return requests
}

// merge gives a hold up that is not enough for least, to be returned with the
// request for more: what is in our own hand must not be what is missing.
func (l *local) merge(least int64, now time.Duration, epoch uint64) {
	n := l.available(now, epoch)
	if n == 0 || n >= least || n+l.outlook(now) < least || l.settle.id.Seq != 0 || l.holds[0].pending > 0 {
		return
	}
	l.settle, l.holds[0], l.holds[1] = l.holds[0], l.holds[1], hold{}
	if n >= l.denyCost { // that was refused only once this was spent
		l.denyUntil, l.shortOf = 0, 0
	}
}

// receive takes in what an ask brought. After an error nothing is known, so
// nothing is in hand; the store decides the next takes.
func (s *Store) receive(a *ask, r *sluice.HoldRequest, g *sluice.Grant, err error, sent time.Duration, epoch uint64) {
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	l := a.local
	waiting := l.waiting
	l.asking, l.waiting = nil, 0
	defer close(a.done)
	now, _ := s.clock.now()
	if err != nil {
		l.exactOnly = now + gap
		if r.Previous.Seq != 0 {
			s.sendSoon(sluice.HoldReturn{Key: r.Key, Limit: r.Limit, ID: r.Previous, Spent: r.Spent})
		}
		if maybe(err) { // what was granted is not missed
			s.sendSoon(sluice.HoldReturn{Key: r.Key, Limit: r.Limit, ID: r.ID})
		}
		return
	}
	if l.limit != r.Limit {
		// Meanwhile somebody came with another limit, about which this says
		// nothing. What was granted goes back.
		if g.Amount.Thousandths() > 0 {
			s.sendSoon(sluice.HoldReturn{Key: r.Key, Limit: l.limit, ID: r.ID})
		}
		return
	}
	shortOf := int64(0)
	if g.Amount.Thousandths() == 0 || g.Free.Thousandths() < max(a.least, waiting-g.Amount.Thousandths()) {
		shortOf = a.least
	}
	if asked(g) {
		l.hear(g.Remaining.Thousandths(), g.Free.Thousandths(), shortOf, sent, g.Now)
	}
	if g.Amount.Thousandths() > 0 {
		s.stats.granted.Add(1)
		l.used = now    // who asked for it has yet to spend it
		l.denyUntil = 0 // who was refused more waits for longer now
		kept := g.Expires.Sub(g.Now)
		h := hold{id: r.ID, amount: g.Amount.Thousandths(), left: g.Amount.Thousandths(), until: sent + kept - kept/10, epoch: epoch}
		switch l.available(now, epoch); { // which makes room
		case l.holds[0].id.Seq == 0:
			l.holds[0] = h
		case l.holds[1].id.Seq == 0:
			l.holds[1] = h
		default: // it is not needed
			s.sendSoon(sluice.HoldReturn{Key: r.Key, Limit: r.Limit, ID: r.ID})
		}
		if !l.overtaken(g.Now) && g.Amount.Thousandths() < r.Max.Thousandths() && g.Free.Thousandths() < a.least {
			// That was all there was. When it is spent, let a few tokens
			// come before asking again.
			l.deny(a.least, max(gap, l.comesIn(a.least-g.Free.Thousandths(), g.Now)), now)
			s.askAgain(l, a)
		}
		return
	}
	switch {
	case g.RetryIn == 0, l.overtaken(g.Now):
		// The store was not asked: while it recovers, only some keys are.
		// Or who stands in line since then has yet to be reckoned with.
		l.exactOnly = now + gap
	case g.Recalled && !g.Held:
		// Somebody waits for what is held. There is enough for us, but not
		// in advance.
		l.exactOnly = now + gap
	case g.Held:
		// Others hold what is missing.
		l.denyForHeld(a.least, max(g.RetryIn, l.breather()), now)
	default:
		l.deny(a.least, max(g.RetryIn, l.breather()), now)
		s.askAgain(l, a)
	}
}

// askAgain asks for more of a drained bucket as soon as some should have come,
// if callers were refused meanwhile: so the next finds it in hand, and nobody
// has to wait for the answer. Where it takes longer, whoever comes then asks.
func (s *Store) askAgain(l *local, a *ask) {
	now, _ := s.clock.now()
	pause := l.denyUntil - now
	if pause > gap {
		return
	}
	time.AfterFunc(pause, func() {
		a.shard.mu.Lock()
		defer a.shard.mu.Unlock()
		if l.refused > 0 && l.holds[1].id.Seq == 0 && a.shard.find(&l.key, l.hash) == l {
			s.askFor(l, a.shard, a.least)
		}
	})
}

// comesIn is how long it takes from now, in the store's time, until n more are
// there: to be refilled, or for the window to end.
func (l *local) comesIn(n int64, now time.Time) time.Duration {
	if l.limit.Algorithm != sluice.FixedWindow {
		return l.dueIn(n)
	}
	_, end := l.window(now.UnixMicro())
	return time.Duration(end-now.UnixMicro()) * time.Microsecond
}

// dueIn is about how long it takes n to be refilled.
func (l *local) dueIn(n int64) time.Duration {
	if l.limit.Algorithm != sluice.TokenBucket || n <= 0 {
		return 0
	}
	return time.Duration(min(float64(n)/float64(l.limit.Amount.Thousandths())*float64(l.limit.Period), float64(forever)))
}

// forever is the longest wait that is told, as by package bucket.
const forever = bucket.Forever * time.Microsecond
