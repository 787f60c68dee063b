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
// less the server has to do. Only if so many wait that they fill a call, it is
// sent at once, beside the one under way.
type combiner struct {
	cluster bool
	seed    maphash.Seed
	shards  [laneShards]laneShard
}

const (
	laneShards = 64 // in a cluster
	maxTakes   = 64 // in one call, during which nobody else is served
	maxCalls   = 8  // under way in a lane
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
	waiting []*ticket
}

// ticket is a take in a lane.
type ticket struct {
	request *request
	demands int
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

// combined calls the script for a plain take of so many demands, alone or
// together with others.
func (s *Store) combined(ctx context.Context, r *request, demands int) (string, error) {
	sh, name := s.combiner.laneOf(r.keys[0])
	sh.mu.Lock()
	l := sh.lanes[name]
	if l == nil { // nothing is under way
		sh.lanes[name] = &lane{calls: 1}
		sh.mu.Unlock()
		defer s.next(sh, name)
		return s.call(ctx, firstOfTakes(r), r)
	}
	t := &ticket{request: r, demands: demands, since: time.Now(), done: make(chan struct{})}
	l.waiting = append(l.waiting, t)
	full := len(l.waiting) >= maxTakes && l.calls < maxCalls
	if full {
		l.calls++
	}
	sh.mu.Unlock()
	if full {
		s.next(sh, name)
	}
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

// next has those who wait in a lane served when a call has ended, or before.
func (s *Store) next(sh *laneShard, name string) {
	if batch := sh.batch(name, s.config.Timeout); batch != nil {
		go func() {
			for batch != nil {
				s.send(batch)
				batch = sh.batch(name, s.config.Timeout)
			}
		}()
	}
}

// batch is what can be sent together of those who wait. If nobody does, there
// is one call less, and the lane is closed with the last. Those who have waited for too long, because calls before
// them got no answer, are sent away.
func (sh *laneShard) batch(name string, patience time.Duration) []*ticket {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	l := sh.lanes[name]
	for len(l.waiting) > 0 && time.Since(l.waiting[0].since) > patience {
		l.waiting[0].err = errBehind
		close(l.waiting[0].done)
		l.waiting = l.waiting[1:]
	}
	if len(l.waiting) == 0 {
		if l.calls--; l.calls == 0 {
			delete(sh.lanes, name)
		}
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
	return batch
}

// send calls the script for several takes.
func (s *Store) send(batch []*ticket) {
	r := joined(batch)
	reply, err := s.call(context.Background(), firstOfTakes(r), r)
	for _, t := range batch {
		if t.err = err; err == nil {
			n := replySize(reply, t.demands)
			if n == 0 {
				err, t.err = errReply, errReply
			}
			t.reply, reply = reply[:n], reply[n:]
		}
		close(t.done)
	}
}

// joined is one request for all, in which each key has one number.
func joined(batch []*ticket) *request {
	if len(batch) == 1 {
		return batch[0].request
	}
	all := &request{}
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
			all.args, all.numbers = append(all.args, arg), append(all.numbers, k)
		}
	}
	return all
}
