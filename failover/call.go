package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-go/sluice"
)

// outcome is how a call of the store ended.
type outcome uint8

const (
	answered       outcome = iota
	callers                // ended by the caller, or by a mistake of theirs
	timedOut               // no answer in time: it may have happened
	lost                   // no answer, for another reason: it may have happened
	unreachable            // it certainly did not happen
	faulty                 // the store answered something it should not; it did not happen
	busy                   // too many calls wait for a store that answers; it did not happen
	unreadable             // the store answered that one of the records is; it did not happen
	halted                 // the same, but it may have happened
	unacknowledged         // it did happen, and may be forgotten: too few replicas have it

	outcomes = iota
)

// unknown reports whether the call may have taken effect.
func (o outcome) unknown() bool {
	return o == timedOut || o == lost || o == halted || o == unacknowledged
}

// blameless reports whether the outcome says nothing about the store as a whole.
func (o outcome) blameless() bool { return o >= busy }

// fairShare is which part of Timeout a store must have had before a caller's
// own deadline, earlier than that, counts against it. A process that notices
// the end of a call later than by the same part is starved.
const fairShare = 10

// call is one call of the store under way.
type call struct {
	store  *Store
	pass   pass
	more   []pass // of other shards
	caller context.Context
	ctx    context.Context
	cancel context.CancelFunc // nil if ctx is the caller's
	fair   bool               // the store has enough time to be blamed for using it up
	unsure bool               // another shard than that of the pass may be to blame
}

// begin starts a call that was admitted.
func (s *Store) begin(ctx context.Context, p pass, more ...pass) call {
	p.began = p.by.now()
	for i := range more {
		more[i].began = p.began
	}
	c := call{store: s, pass: p, more: more, caller: ctx, ctx: ctx, fair: true}
	timeout := s.settings.Load().Timeout
	if deadline, ok := ctx.Deadline(); ok {
		if left := time.Until(deadline); left <= timeout {
			c.fair = left >= timeout/fairShare
			return c
		}
	}
	c.ctx, c.cancel = context.WithTimeout(ctx, timeout)
	return c
}

// beginAny starts a call about some keys that is not a take.
func (s *Store) beginAny(ctx context.Context, n int, key func(int) *sluice.Key) (call, error) {
	p, more, ok := s.admit(n, key)
	if !ok {
		return call{}, s.worst().unavailable()
	}
	return s.begin(ctx, p, more...), nil
}

// beginFor starts a call about a lease.
func (s *Store) beginFor(ctx context.Context, id string) (call, error) {
	b := &s.whole
	if s.shards != nil {
		b = s.breaker(s.shards.ShardOfID(id))
	}
	p, ok := b.admit()
	if !ok {
		return call{}, b.unavailable()
	}
	c := s.begin(ctx, p)
	c.unsure = s.shards != nil // its buckets may be in others
	return c, nil
}

func (b *breaker) unavailable() error {
	return fmt.Errorf("%w: the circuit breaker is %s", sluice.ErrUnavailable, b.state())
}

// end tells the breaker how the call went. The error is the one for the
// caller: if the outcome is unknown, it says so.
func (c *call) end(err error) (outcome, error) {
	if err == nil {
		if c.cancel != nil {
			c.cancel()
		}
		c.pass.by.success(c.pass)
		for _, p := range c.more {
			p.by.success(p)
		}
		return answered, nil
	}
	o := c.judge(err)
	blame := o
	if o == callers && c.caller.Err() == context.DeadlineExceeded && c.fair && !mistake(err) && !errors.Is(err, sluice.ErrBusy) {
		blame = timedOut
	}
	if c.cancel != nil {
		c.cancel()
	}
	if blame != callers {
		c.store.outcomes[blame].Add(1)
	}
	if blame == callers || blame.blameless() {
		c.neutral(false)
		return o, err
	}
	if c.unsure || len(c.more) > 0 {
		c.neutral(true)
	} else {
		c.pass.by.failure(c.pass, blame == timedOut && c.starved(), err)
	}
	if o.unknown() && !errors.Is(err, sluice.ErrUnknown) {
		err = fmt.Errorf("no answer within %s: %w: %w", c.store.settings.Load().Timeout, sluice.ErrUnknown, err)
	}
	return o, err
}

// neutral ends a call that says nothing about any one shard, but may have met one
// that fails.
func (c *call) neutral(suspect bool) {
	for _, p := range append(c.more, c.pass) {
		p.by.neutral(p)
		if suspect {
			p.by.suspect()
		}
	}
}

// starved reports whether this process noticed the end of the call's time so
// late that an answer may have been there in time.
func (c *call) starved() bool {
	deadline, ok := c.ctx.Deadline()
	return ok && time.Since(deadline) > c.store.settings.Load().Timeout/fairShare
}

// judge tells whose fault an error is, and whether the call may have happened.
func (c *call) judge(err error) outcome {
	unknown := errors.Is(err, sluice.ErrUnknown)
	switch {
	case mistake(err):
		return callers
	case c.caller.Err() != nil && errors.Is(err, c.caller.Err()):
		return callers
	case errors.Is(err, sluice.ErrBusy):
		return busy
	case errors.Is(err, sluice.ErrUnacknowledged):
		return unacknowledged
	case errors.Is(err, sluice.ErrRecord) && unknown:
		return halted
	case errors.Is(err, sluice.ErrRecord):
		return unreadable
	case !unknown && errors.Is(err, sluice.ErrUnavailable):
		return unreachable
	case c.caller.Err() != nil:
		return callers
	case c.ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return timedOut
	case unknown:
		return lost
	}
	return faulty
}

// mistake reports whether err is about what was asked, not about the store.
func mistake(err error) bool {
	var field *sluice.FieldError
	return errors.As(err, &field) ||
		errors.Is(err, sluice.ErrLeaseClosed) || errors.Is(err, sluice.ErrRequestMismatch) ||
		errors.Is(err, errors.ErrUnsupported) || errors.Is(err, sluice.ErrClosed)
}
