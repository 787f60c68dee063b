package limitstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/bucket"
)

// Statuses of a reply, as in place.lua.
const (
	refused = iota
	allowed
	foreign
	window
	mismatch
	crowded
	closed
	noLimit
	fixedCost

	repeated = 16 // added to refused and allowed
	states   = 32 // added to refused and allowed: states follow, not results
)

const (
	answerSize = 17 // of a reply without results: status, time, a number
	resultSize = 33 // of what receipts keep
	moreSize   = 16 // of the rest of a result
	stateSize  = 32
)

var errReply = fmt.Errorf("redis: %w: the script's answer makes no sense", sluice.ErrUnknown)

// replySize is how long the reply to a take is that s starts with, or 0 if it
// makes no sense.
func replySize(s string, r *request) int {
	if s == "" {
		return 0
	}
	size, n := answerSize, len(r.limits)
	switch status := s[0]; {
	case status&states != 0: // a status in front of each part
		size = len(r.args) + n*stateSize
	case status&repeated != 0: // as many as there were
		return len(s)
	case status <= allowed:
		size = answerSize + n*(resultSize+moreSize)
	}
	if size > len(s) {
		return 0
	}
	return size
}

// statusError is what a status that is no decision means, or nil.
func statusError(s string, r *request) error {
	number := readNumber(s[9:])
	switch s[0] {
	case foreign:
		return newRecordError(number, r)
	case window:
		return &windowError{time: number, server: readNumber(s[1:]), limit: s[answerSize:]}
	case mismatch:
		return sluice.ErrRequestMismatch
	case crowded:
		return fmt.Errorf("redis: an entity uses %d limits of a resource, which is as many as there may be", number)
	case closed:
		return sluice.ErrLeaseClosed
	}
	return nil
}

// readTake fills d from the reply to a take.
func readTake(reply string, r *request, t *sluice.Take, d *sluice.Decision) error {
	n := len(t.Demands)
	if size := replySize(reply, r); size == 0 || size != len(reply) {
		return errReply
	}
	if reply[0]&states == 0 {
		if err := statusError(reply[:answerSize], r); err != nil {
			return err
		}
	}
	if reply[0]&(states|repeated) == repeated {
		*d = sluice.Decision{Repeated: true, Time: time.UnixMicro(readNumber(reply[1:])), Results: d.Results[:0]}
		return nil // the receipt says the rest
	}
	*d = sluice.Decision{
		Allowed: reply[0]&1 != 0,
		Source:  sluice.FromStore,
		ID:      t.ID,
		Demands: t.Demands,
		Results: slices.Grow(d.Results[:0], n)[:n],
	}
	var at int64
	if reply[0]&states != 0 {
		at = readStates(reply, r, t, d)
	} else {
		at = readNumber(reply[1:])
		rest := reply[answerSize+n*resultSize:]
		for i := range n {
			res := &d.Results[r.demand(i)]
			readResult(reply[answerSize+i*resultSize:], res)
			readMore(rest[i*moreSize:], res)
		}
	}
	d.Time = time.UnixMicro(at)
	d.Conclude()
	return nil
}

// readStates concludes results from the states of token buckets after a plain
// take, and the time of the take.
func readStates(reply string, r *request, t *sluice.Take, d *sluice.Decision) (at int64) {
	part, more := 0, 0 // the parts begun, and what is to come of the last of them
	for i := range t.Demands {
		if more == 0 {
			more = int(r.args[part][1])
			part++
		}
		more--
		n := r.demand(i)
		dm, res, c := &t.Demands[n], &d.Results[n], r.limits[n]
		state := reply[part+i*stateSize:]
		used, rem := readNumber(state), readNumber(state[8:])
		at = max(at, readNumber(state[16:]))
		cost, left := dm.Charge().Thousandths(), c.spec.Capacity-used
		*res = sluice.Result{
			Fits:       true,
			Remaining:  sluice.Thousandths(left),
			Free:       sluice.Thousandths(left), // it has no holds
			ResetAfter: microseconds(c.spec.RepayIn(rem, used)),
		}
		switch {
		case d.Allowed:
			res.Consumed = sluice.Thousandths(cost)
		case cost > left:
			res.Fits, res.RetryAfter = false, sluice.Never
			if cost <= c.spec.Capacity {
				res.RetryAfter = microseconds(c.spec.RepayIn(rem, cost-left))
			}
		}
	}
	return at
}

// readResult reads what receipts keep of a result. What is held is not known.
func readResult(s string, r *sluice.Result) {
	*r = sluice.Result{
		Fits:       s[0]&1 != 0,
		Held:       s[0]&2 != 0,
		Consumed:   sluice.Thousandths(readNumber(s[1:])),
		Remaining:  sluice.Thousandths(readNumber(s[9:])),
		RetryAfter: wait(readNumber(s[17:])),
		ResetAfter: microseconds(readNumber(s[25:])),
	}
	r.Free = r.Remaining
}

// readMore reads the rest of a result.
func readMore(s string, r *sluice.Result) {
	r.Free = sluice.Thousandths(r.Remaining.Thousandths() - readNumber(s))
	r.Returned = sluice.Thousandths(readNumber(s[8:]))
}

// wait is a time that -1 stands for never in.
func wait(n int64) time.Duration {
	if n < 0 {
		return sluice.Never
	}
	return microseconds(min(n, bucket.Forever))
}
