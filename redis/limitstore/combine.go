package limitstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
)

// A plain take that comes while a call is under way in its lane waits for it,
// and then all that have come are sent in one call. The script decides them
// one after the other, so every answer is what it would have been alone; but
// the server reads, looks up and answers once instead of many times. Nobody
// waits if nothing is under way.
//
// In a cluster there is a lane for each record that is in use, as one call can
// only be about one slot. Elsewhere there is one for all: the fewer calls, the
// less the server has to do. A second call is sent beside the one under way as
// soon as half as many takes wait, so that the server has the next to do while
// this process reads the answers to the last.
type combiner struct {
	cluster bool
	seed    maphash.Seed
	shards  [laneShards]laneShard
}

const (
	laneShards = 64 // in a cluster
	maxTakes   = 64 // in one call, during which nobody else is served
	maxCalls   = 2  // under way in a lane, but for full ones
	maxFull    = 8
)

var errBehind = fmt.Errorf("redis: %w: the calls before got no answer in time", sluice.ErrUnavailable)

type laneShard struct {
	mu    sync.Mutex
	lanes map[string]*lane
	_     [40]byte // keeps the locks out of each other's cache lines
}

// lane is where calls are under way.
type lane struct {
	calls   int
	takes   int // in those calls
	waiting []*request
}

// ready reports whether those who wait may be sent.
func (l *lane) ready() bool {
	n := len(l.waiting)
	return l.calls == 0 || l.calls < maxCalls && 2*n >= l.takes || l.calls < maxFull && n >= maxTakes
}

// passage is what a request knows of its way through a lane.
type passage struct {
	since time.Time
	sent  bool
	done  chan struct{} // gets one when reply or err is there
	reply string
	err   error
}

func (p *passage) answer(reply string, err error) {
	p.reply, p.err = reply, err
	p.done <- struct{}{}
}

func (c *combiner) start(cluster bool) {
	c.cluster = cluster
	c.seed = maphash.MakeSeed()
	for i := range c.shards {
		c.shards[i].lanes = map[string]*lane{}
	}
}

// laneOf is the lane for takes of a record.
func (c *combiner) laneOf(record string) (*laneShard, string) {
	if c.cluster {
		return &c.shards[maphash.String(c.seed, record)%laneShards], record
	}
	return &c.shards[0], ""
}

// combined calls the script for a plain take, alone or together with others.
func (s *Store) combined(ctx context.Context, r *request) (string, error) {
	sh, name := s.combiner.laneOf(r.keys[0])
	sh.mu.Lock()
	l := sh.lanes[name]
	if l == nil { // nothing is under way
		sh.lanes[name] = &lane{calls: 1, takes: 1}
		sh.mu.Unlock()
		defer func() { s.serve(sh, name, sh.ended(name, 1, s.db.Config.Timeout)) }()
		return s.call(ctx, r.firstOfTakes(), r)
	}
	if r.done == nil {
		r.done = make(chan struct{}, 1)
	}
	r.since, r.sent = time.Now(), false
	l.waiting = append(l.waiting, r)
	batch := l.batch()
	sh.mu.Unlock()
	s.serve(sh, name, batch)
	if ctx.Done() == nil {
		<-r.done
		return r.reply, r.err
	}
	select {
	case <-r.done:
		return r.reply, r.err
	case <-ctx.Done():
	}
	return "", sh.giveUp(name, r, ctx.Err())
}

// giveUp takes a request out of its lane, if it has not been sent.
func (sh *laneShard) giveUp(name string, r *request, err error) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if r.sent {
		return fmt.Errorf("redis: %w: %w", sluice.ErrUnknown, err)
	}
	l := sh.lanes[name]
	if l == nil {
		return err // it has just been sent away, and the lane closed
	}
	for i := range l.waiting {
		if l.waiting[i] == r {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			break
		}
	}
	return err
}

// serve sends a batch, if there is one, and then those who have come meanwhile.
func (s *Store) serve(sh *laneShard, name string, batch []*request) {
	if batch != nil {
		go s.keepServing(sh, name, batch)
	}
}

func (s *Store) keepServing(sh *laneShard, name string, batch []*request) {
	for batch != nil {
		s.send(batch)
		if len(batch) > 1 {
			// Those who have just got their answers go on first: what they
			// ask next can then go with the next call already.
			runtime.Gosched()
		}
		batch = sh.ended(name, len(batch), s.db.Config.Timeout)
	}
}

// ended is told when a call of so many takes has ended, and answers what is to
// be sent next. The lane is closed with the last. Those who have waited for too
// long, because calls before them got no answer, are sent away.
func (sh *laneShard) ended(name string, takes int, patience time.Duration) []*request {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.lanes[name]
	l.calls--
	l.takes -= takes
	for len(l.waiting) > 0 && time.Since(l.waiting[0].since) > patience {
		l.waiting[0].answer("", errBehind)
		l.waiting = l.waiting[1:]
	}
	if l.calls == 0 && len(l.waiting) == 0 {
		delete(sh.lanes, name)
	}
	return l.batch()
}

// batch is what is to be sent now of those who wait, nil for nothing.
func (l *lane) batch() []*request {
	if len(l.waiting) == 0 || !l.ready() {
		return nil
	}
	n, keys := 0, 0
	for n < len(l.waiting) && n < maxTakes {
		if keys += len(l.waiting[n].keys); keys > maxBatch && n > 0 {
			break
		}
		n++
	}
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	for _, r := range batch {
		r.sent = true
	}
	l.calls++
	l.takes += n
	return batch
}

// send calls the script for several takes.
func (s *Store) send(batch []*request) {
	if len(batch) == 1 {
		batch[0].answer(s.call(context.Background(), batch[0].firstOfTakes(), batch[0]))
		return
	}
	j := joiners.Get().(*joiner)
	defer j.free()
	j.join(batch)
	reply, err := s.call(context.Background(), j.all.firstOfTakes(), &j.all)
	for _, r := range batch {
		n := 0
		if err == nil {
			if n = replySize(reply, r); n == 0 {
				err = errReply
			}
		}
		r.answer(reply[:n], err)
		reply = reply[n:]
	}
}

// joiner makes one request of many. It is used again because of what it has
// allocated.
type joiner struct {
	all     request
	numbers map[string]byte // of keys
}

var joiners = sync.Pool{New: func() any {
	return &joiner{numbers: make(map[string]byte, maxTakes)}
}}

func (j *joiner) free() {
	clear(j.numbers)
	clear(j.all.keys)
	clear(j.all.args)
	joiners.Put(j)
}

// join makes one request for all, in which each key has one number, and mostly
// each argument, too: many ask for the same of different keys.
func (j *joiner) join(batch []*request) {
	all := &j.all
	all.joined = true
	all.keys, all.args, all.numbers = all.keys[:0], all.args[:0], all.numbers[:0]
	for _, r := range batch {
		for i, arg := range r.args {
			key := r.keys[r.numbers[i]-1]
			k, ok := j.numbers[key]
			if !ok {
				all.keys = append(all.keys, key)
				k = byte(len(all.keys))
				j.numbers[key] = k
			}
			all.numbers = append(all.numbers, k, all.argument(arg))
		}
	}
}

// argument adds an argument unless it is one of the last few, and answers its
// number.
func (r *request) argument(arg string) byte {
	for i := len(r.args) - 1; i >= max(0, len(r.args)-8); i-- {
		if r.args[i] == arg {
			return byte(i + 2)
		}
	}
	r.args = append(r.args, arg)
	return byte(len(r.args) + 1)
}
