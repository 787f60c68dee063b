package limitstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/combine"
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
	shards  [laneShards]struct {
		combine.Lanes[*request]
		_ [40]byte // keeps the locks out of each other's cache lines
	}
}

const (
	laneShards = 64 // in a cluster
	maxTakes   = 64 // in one call, during which nobody else is served
	maxCalls   = 2  // under way in a lane, except for full ones
	maxFull    = 8
)

var errBehind = fmt.Errorf("redis: %w: the calls before got no answer in time", sluice.ErrUnavailable)

// combine makes s ready to combine takes.
func (s *Store) combine() {
	c := &s.combiner
	c.cluster, c.seed = s.db.Cluster, maphash.MakeSeed()
	rules := &combine.Rules[*request]{
		Alone: s.sendAlone, Send: s.send, Ready: ready, Size: callSize,
		Patience: s.db.Config.Timeout, Behind: errBehind,
	}
	for i := range c.shards {
		c.shards[i].Start(rules)
	}
}

func ready(calls, sent, waiting int) bool {
	return calls < maxCalls && 2*waiting >= sent || calls < maxFull && waiting >= maxTakes
}

func callSize(waiting []*request) int {
	n, keys := 0, 0
	for n < len(waiting) && n < maxTakes {
		if keys += len(waiting[n].keys); keys > maxBatch && n > 0 {
			break
		}
		n++
	}
	return n
}

// combined calls the script for a plain take, alone or together with others.
func (s *Store) combined(ctx context.Context, r *request) (string, error) {
	c, shard, lane := &s.combiner, uint64(0), ""
	if c.cluster {
		lane = r.keys[0]
		shard = maphash.String(c.seed, lane) % laneShards
	}
	switch lost, err := c.shards[shard].Do(ctx, lane, r); {
	case lost:
		return "", fmt.Errorf("redis: %w: %w", sluice.ErrUnknown, err)
	case err != nil:
		return "", err
	}
	return r.reply, nil
}

func (s *Store) sendAlone(ctx context.Context, r *request) (err error) {
	r.reply, err = s.call(ctx, r.firstOfTakes(), r)
	return err
}

// send calls the script for several takes.
func (s *Store) send(batch []*request) {
	if len(batch) == 1 {
		batch[0].Answer(s.sendAlone(context.Background(), batch[0]))
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
		r.reply, reply = reply[:n], reply[n:]
		r.Answer(err)
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
