package limitstore

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
)

// call runs the script and returns its reply, as [redis.Retry] does. A first
// argument of "" is left out.
func (s *Store) call(ctx context.Context, first string, r *request) (reply string, err error) {
	if ctx.Done() == nil {
		ctx = s.deadline.next(s.db.Life(), s.db.Config.Timeout)
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.db.Config.Timeout)
		defer cancel()
	}
	if s.db.Config.Clock != nil {
		// Time must not run backwards on the way to the server.
		s.clock.Lock()
		defer s.clock.Unlock()
		now := string(appendNumber(nil, s.db.Config.Clock().UnixMicro()))
		if first == "" {
			r = &request{keys: r.keys, args: []string{r.args[0], now}}
		} else {
			first = first[:1] + now + first[9:]
		}
	}
	s.db.Calls.Add(1)
	defer s.db.Calls.Add(-1)
	err = redis.Retry(ctx, func(known bool) error {
		reply, err = s.evaluate(ctx, known, first, r)
		return err
	})
	if errors.Is(err, sluice.ErrRecord) && !errors.Is(err, sluice.ErrUnknown) && len(r.keys) == 1 {
		err = &recordError{key: r.keys[0]}
	}
	return reply, err
}

func (s *Store) evaluate(ctx context.Context, known bool, first string, r *request) (string, error) {
	command, text := "EVALSHA", scriptSHA
	if !known {
		command, text = "EVAL", script
	}
	cmd := s.db.Client.B().Arbitrary(command, text, strconv.Itoa(len(r.keys))).Keys(r.keys...)
	if first != "" {
		cmd = cmd.Args(first)
	}
	return s.db.Client.Do(ctx, cmd.Args(r.args...).Build()).ToString()
}

// deadline gives calls that come at about the same time the same context to
// wait with, because making one for each costs as much as the rest of a call.
type deadline struct {
	shared atomic.Pointer[sharedDeadline]
}

type sharedDeadline struct {
	context.Context
	cancel context.CancelFunc // nobody knows when the last one is done with it; it ends by itself
	since  time.Time
}

// next is a context that ends when timeout is over, or up to an eighth later.
func (d *deadline) next(life context.Context, timeout time.Duration) context.Context {
	shared, now := d.shared.Load(), time.Now()
	if shared == nil || now.Sub(shared.since) > timeout/8 {
		ctx, cancel := context.WithTimeout(life, timeout+timeout/8)
		shared = &sharedDeadline{Context: ctx, cancel: cancel, since: now}
		d.shared.Store(shared)
	}
	return shared
}
