package redis

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"
)

// call runs the script and answers its reply. A first argument of "" is left
// out. It goes on trying, for a while,
// as long as it is certain that nothing has happened.
func (s *Store) call(ctx context.Context, first string, r *request) (string, error) {
	if ctx.Done() == nil {
		ctx = s.deadline.next(s.life, s.config.Timeout)
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.config.Timeout)
		defer cancel()
	}
	if s.config.Now != nil {
		// Time must not run backwards on the way to the server.
		s.clock.Lock()
		defer s.clock.Unlock()
		now := string(appendNumber(nil, s.config.Now().UnixMicro()))
		if first == "" {
			r = &request{keys: r.keys, args: []string{r.args[0], now}}
		} else {
			first = first[:1] + now + first[9:]
		}
	}
	s.calls.Add(1)
	defer s.calls.Add(-1)
	known := true // the server knows the script
	for attempt := 0; ; attempt++ {
		reply, err := s.evaluate(ctx, known, first, r)
		if err == nil {
			return reply, nil
		}
		o := judge(err)
		switch {
		case o == noScript && known:
			known = false
			continue
		case o == notYet && pause(ctx, attempt):
			known = true
			continue
		}
		return "", failure(err, o)
	}
}

func (s *Store) evaluate(ctx context.Context, known bool, first string, r *request) (string, error) {
	command, text := "EVALSHA", scriptSHA
	if !known {
		command, text = "EVAL", script
	}
	cmd := s.client.B().Arbitrary(command, text, strconv.Itoa(len(r.keys))).Keys(r.keys...)
	if first != "" {
		cmd = cmd.Args(first)
	}
	return s.client.Do(ctx, cmd.Args(r.args...).Build()).ToString()
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

// pause waits before another attempt, longer each time and never twice the
// same, so that callers do not come back all at once. It reports false if
// there is no time left for another.
func pause(ctx context.Context, attempt int) bool {
	wait := time.Millisecond << min(attempt, 6)
	wait += rand.N(wait)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
