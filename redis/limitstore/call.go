package limitstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

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
	if r.acknowledge {
		return s.evaluateAndWait(ctx, cmd.Args(r.args...).Build(), r)
	}
	return s.db.Client.Do(ctx, cmd.Args(r.args...).Build()).ToString()
}

// evaluateAndWait gives replicas three quarters of the time left to acknowledge
// what the script has written. WAIT is about the writes of its own connection.
func (s *Store) evaluateAndWait(ctx context.Context, cmd rueidis.Completed, r *request) (reply string, err error) {
	patience := s.db.Config.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	wait := s.db.Client.B().Wait().Numreplicas(int64(s.db.Config.Replicas)).Timeout(max(1, (patience * 3 / 4).Milliseconds())).Build()
	r.acknowledged = 0
	err = s.db.Client.Dedicated(func(own rueidis.DedicatedClient) error {
		results := own.DoMulti(ctx, cmd, wait)
		if reply, err = results[0].ToString(); err != nil {
			return err
		}
		r.acknowledged, err = results[1].AsInt64()
		if err != nil {
			s.db.Config.Log.Debug("replicas were not asked", "error", err)
		}
		return nil
	})
	return reply, err
}

// acknowledgment returns an error if a take was carried out that too few replicas
// have acknowledged.
func (s *Store) acknowledgment(r *request, d *sluice.Decision) error {
	if !r.acknowledge || !d.Allowed || r.acknowledged >= int64(s.db.Config.Replicas) {
		return nil
	}
	return fmt.Errorf("redis: %w: %d of %d", sluice.ErrUnacknowledged, r.acknowledged, s.db.Config.Replicas)
}

// certain reports whether replicas are asked to acknowledge a take.
func (s *Store) certain(t *sluice.Take) bool {
	return s.db.Config.Replicas > 0 && !t.Peek && slices.ContainsFunc(t.Demands, func(d sluice.Demand) bool { return d.Critical })
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
