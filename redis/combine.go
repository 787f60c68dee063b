package redis

import (
	"context"
	"fmt"
	"hash/maphash"
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
	waiting []*ticket
}

// ready reports whether those who wait may be sent.
func (l *lane) ready() bool {
	n := len(l.waiting)
	return l.calls == 0 || l.calls < maxCalls && 2*n >= l.takes || l.calls < maxFull && n >= maxTakes
}

// ticket is a take in a lane.
type ticket struct {
	request *request
	since   time.Time
	sent    bool
	done    chan struct{}
	reply   string
	err     error
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
		defer func() { s.serve(sh, name, sh.ended(name, 1, s.config.Timeout)) }()
		return s.call(ctx, r.firstOfTakes(), r)
	}
	t := &ticket{request: r, since: time.Now(), done: make(chan struct{})}
	l.waiting = append(l.waiting, t)
	batch := l.batch()
	sh.mu.Unlock()
	s.serve(sh, name, batch)
	select {
	case <-t.done:
		return t.reply, t.err
	case <-ctx.Done():
	}
	return "", sh.giveUp(name, t, ctx.Err())
}

// giveUp takes a ticket out of its lane, if it has not been sent.
func (sh *laneShard) giveUp(name string, t *ticket, err error) error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if t.sent {
		return fmt.Errorf("redis: %w: %w", sluice.ErrUnknown, err)
	}
	l := sh.lanes[name]
	if l == nil {
		return err // it has just been sent away, and the lane closed
	}
	for i := range l.waiting {
		if l.waiting[i] == t {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			break
		}
	}
	return err
}

// serve sends a batch, and then those who have come meanwhile.
func (s *Store) serve(sh *laneShard, name string, batch []*ticket) {
	if batch == nil {
		return
	}
	go func() {
		for batch != nil {
			s.send(batch)
			batch = sh.ended(name, len(batch), s.config.Timeout)
		}
	}()
}

// ended is told when a call of so many takes has ended, and answers what is to
// be sent next. The lane is closed with the last. Those who have waited for too
// long, because calls before them got no answer, are sent away.
func (sh *laneShard) ended(name string, takes int, patience time.Duration) []*ticket {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.lanes[name]
	l.calls--
	l.takes -= takes
	for len(l.waiting) > 0 && time.Since(l.waiting[0].since) > patience {
		l.waiting[0].err = errBehind
		close(l.waiting[0].done)
		l.waiting = l.waiting[1:]
	}
	if l.calls == 0 && len(l.waiting) == 0 {
		delete(sh.lanes, name)
	}
	return l.batch()
}

// batch is what is to be sent now of those who wait, nil for nothing.
func (l *lane) batch() []*ticket {
	if len(l.waiting) == 0 || !l.ready() {
		return nil
	}
	n, keys := 0, 0
	for n < len(l.waiting) && n < maxTakes {
		if keys += len(l.waiting[n].request.keys); keys > maxBatch && n > 0 {
			break
		}
		n++
	}
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	for _, t := range batch {
		t.sent = true
	}
	l.calls++
	l.takes += n
	return batch
}

// send calls the script for several takes.
func (s *Store) send(batch []*ticket) {
	r := joined(batch)
	reply, err := s.call(context.Background(), r.firstOfTakes(), r)
	for _, t := range batch {
		if t.err = err; err == nil {
			n := replySize(reply, t.request)
			if n == 0 {
				err, t.err = errReply, errReply
			}
			t.reply, reply = reply[:n], reply[n:]
		}
		close(t.done)
	}
}

// joined is one request for all, in which each key has one number, and mostly
// each argument, too: many ask for the same of different keys.
func joined(batch []*ticket) *request {
	if len(batch) == 1 {
		return batch[0].request
	}
	all := &request{joined: true, numbers: make([]byte, 0, 2*len(batch))}
	numbers := make(map[string]byte, len(batch))
	for _, t := range batch {
		for i, arg := range t.request.args {
			key := t.request.keys[t.request.numbers[i]-1]
			k, ok := numbers[key]
			if !ok {
				all.keys = append(all.keys, key)
				k = byte(len(all.keys))
				numbers[key] = k
			}
			all.numbers = append(all.numbers, k, all.argument(arg))
		}
	}
	return all
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
