// Package combine sends requests together. A request that comes while a call is
// under way waits, and then all that have come go in one call. Nobody waits if
// nothing is under way.
package combine

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Rules say how requests are sent.
type Rules[R Request] struct {
	// Alone sends a request that nothing is under way before.
	Alone func(context.Context, R) error

	// Send sends requests that have waited, and answers each of them.
	Send func(batch []R)

	// Ready reports whether another call may be sent beside those under way,
	// which have so many requests, for those that wait. It is not asked if
	// none is under way.
	Ready func(calls, sent, waiting int) bool

	// Size returns how many of those that wait go in one call, at least 1.
	Size func(waiting []R) int

	// Patience is how long a request waits for calls before it, until it is
	// answered with Behind. 0 means for as long as it takes.
	Patience time.Duration
	Behind   error
}

// Request is what is sent: a pointer to a struct that embeds a [Ticket].
type Request interface {
	comparable
	ticket() *Ticket
}

// Ticket is what a request knows of its way through a lane. Its zero value is
// ready for use, and it can be used again once it is answered.
type Ticket struct {
	since time.Time
	sent  bool
	done  chan struct{} // gets one when err is there
	err   error
}

func (t *Ticket) ticket() *Ticket { return t }

// Answer lets the caller that waits for the request go on.
func (t *Ticket) Answer(err error) {
	t.err = err
	t.done <- struct{}{}
}

// Again returns a ticket for the next request, with what t has allocated.
func (t *Ticket) Again() Ticket { return Ticket{done: t.done} }

// Lanes are where calls are under way. Only requests of the same lane are sent
// together. An idle lane takes no room.
type Lanes[R Request] struct {
	rules *Rules[R]
	mu    sync.Mutex
	lanes map[string]*lane[R]
}

type lane[R Request] struct {
	calls   int
	sent    int // requests in those calls
	waiting []R
}

// Start makes s ready for use.
func (s *Lanes[R]) Start(rules *Rules[R]) { s.rules, s.lanes = rules, map[string]*lane[R]{} }

// Do sends r, alone or together with others of its lane, and waits until it is
// answered. If ctx ends before that, lost reports whether r has been sent all
// the same; otherwise it will not be.
func (s *Lanes[R]) Do(ctx context.Context, name string, r R) (lost bool, err error) {
	s.mu.Lock()
	l := s.lanes[name]
	if l == nil { // nothing is under way
		s.lanes[name] = &lane[R]{calls: 1, sent: 1}
		s.mu.Unlock()
		defer func() { s.serve(name, s.ended(name, 1)) }()
		return false, s.rules.Alone(ctx, r)
	}
	t := r.ticket()
	if t.done == nil {
		t.done = make(chan struct{}, 1)
	}
	t.since, t.sent = time.Now(), false
	l.waiting = append(l.waiting, r)
	batch := s.batch(l)
	s.mu.Unlock()
	s.serve(name, batch)
	if ctx.Done() == nil {
		<-t.done
		return false, t.err
	}
	select {
	case <-t.done:
		return false, t.err
	case <-ctx.Done():
		return s.giveUp(name, r), ctx.Err()
	}
}

// giveUp takes a request out of its lane, and reports whether it has been sent.
func (s *Lanes[R]) giveUp(name string, r R) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.ticket().sent {
		return true
	}
	if l := s.lanes[name]; l != nil {
		if i := slices.Index(l.waiting, r); i >= 0 {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
		}
	}
	return false
}

// serve sends a batch, if there is one, and then those who have come meanwhile.
func (s *Lanes[R]) serve(name string, batch []R) {
	if batch != nil {
		go s.keepServing(name, batch)
	}
}

func (s *Lanes[R]) keepServing(name string, batch []R) {
	for batch != nil {
		s.rules.Send(batch)
		if len(batch) > 1 {
			// Those who have just got their answers go on first: what they
			// ask next can then go with the next call already.
			runtime.Gosched()
		}
		batch = s.ended(name, len(batch))
	}
}

// ended ends a call of so many requests, and returns what is to be sent next.
// The lane is closed with the last. Those who have waited for too long, because
// calls before them got no answer, are sent away.
func (s *Lanes[R]) ended(name string, sent int) []R {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[name]
	l.calls--
	l.sent -= sent
	for s.rules.Patience > 0 && len(l.waiting) > 0 && time.Since(l.waiting[0].ticket().since) > s.rules.Patience {
		l.waiting[0].ticket().Answer(s.rules.Behind)
		l.waiting = l.waiting[1:]
	}
	if l.calls == 0 && len(l.waiting) == 0 {
		delete(s.lanes, name)
	}
	return s.batch(l)
}

// batch returns those who wait and are to be sent now, nil for none.
func (s *Lanes[R]) batch(l *lane[R]) []R {
	waiting := len(l.waiting)
	if waiting == 0 || l.calls > 0 && !s.rules.Ready(l.calls, l.sent, waiting) {
		return nil
	}
	n := s.rules.Size(l.waiting)
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	for _, r := range batch {
		r.ticket().sent = true
	}
	l.calls++
	l.sent += n
	return batch
}
