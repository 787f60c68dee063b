package limitstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/postgres"
)

// queue sends requests to the database in batches: while a bucket is in one
// that is under way, further takes of it wait for the next. That is what keeps
// a bucket that everybody wants from costing a commit for every token, and this
// process from queuing at locks in the database. Takes of other buckets do not
// wait, as long as there are not too many batches.
type queue struct {
	send func(*batch)

	mu       sync.Mutex
	requests []*request          // in order of arrival
	busy     map[uint64]int      // hashes of buckets under way, with how many takes
	waiting  map[uint64]struct{} // of buckets that an earlier take in the queue wants
	rest     []*request          // those of the queue that stay in it
	running  int                 // batches
	underWay int                 // requests in them
	answers  int                 // of the database to batches
	took     time.Duration       // the last of them
	idle     []*batch
	ended    sync.Cond
	closing  bool
}

const (
	// maxBatches is how many batches can be under way at once.
	maxBatches = 4

	// Large batches are cheaper, so while more than a few takes are under way,
	// the next batch goes only if there is a crowd for it; otherwise they
	// wait for one to end. With few takes, there is nothing to save.
	crowd = 16
	few   = 4

	// More in a batch would keep its buckets locked for too long.
	maxTakes   = 256
	maxDemands = 1024

	// More callers than this find a queue that they would wait in for too long.
	maxWaiting = 4 * maxBatches * maxTakes
)

func newQueue(send func(*batch)) *queue {
	q := &queue{send: send, busy: map[uint64]int{}, waiting: map[uint64]struct{}{}}
	q.ended.L = &q.mu
	for range maxBatches {
		q.idle = append(q.idle, &batch{})
	}
	return q
}

// do has r answered, or answers itself if ctx ends before.
func (q *queue) do(ctx context.Context, r *request) error {
	r.arrived = time.Now()
	r.deadline, _ = ctx.Deadline()
	if err := q.submit(r); err != nil {
		return err
	}
	select {
	case <-r.answered:
		return nil
	case <-ctx.Done():
	}
	if err := q.withdraw(r); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return err
		}
		return ctx.Err()
	}
	select {
	case <-r.answered: // just in time
		return nil
	default:
		return postgres.UnknownError(ctx.Err())
	}
}

func (q *queue) submit(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing {
		return postgres.ErrClosed
	}
	if len(q.requests) >= maxWaiting {
		return errBusy
	}
	r.answers = q.answers
	q.requests = append(q.requests, r)
	if q.running < maxBatches && q.worthwhile(len(q.requests)) && !slices.ContainsFunc(r.hashes, q.isBusy) {
		q.running++
		go q.run()
	}
	return nil
}

// resubmit puts back a request that could not be decided.
func (q *queue) resubmit(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requests = append(q.requests, r) // a batch is about to end, and the next takes it along
}

// worthwhile reports whether a batch with n takes is better than waiting for
// another one to end.
func (q *queue) worthwhile(n int) bool { return q.underWay <= few || n >= crowd }

func (q *queue) isBusy(hash uint64) bool { return q.busy[hash] > 0 }

// withdraw takes r out of the queue. It returns nil if r is no longer there.
func (q *queue) withdraw(r *request) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.requests, r) // of maxWaiting at most
	if i < 0 {
		return nil
	}
	q.requests = slices.Delete(q.requests, i, i+1)
	return q.refusal(r)
}

// refusal returns the error of a request that was never sent. If others were
// answered while it waited, that is not for want of a database. The caller holds
// the mutex.
func (q *queue) refusal(r *request) error {
	if q.answers > r.answers {
		return fmt.Errorf("%w: %w", errBusy, context.DeadlineExceeded)
	}
	return postgres.UnavailableError(context.DeadlineExceeded)
}

var errBusy = fmt.Errorf("postgres: %w", sluice.ErrBusy)

// late reports whether r has waited for so long that its caller would be gone
// before the answer, going by the last batch and a quarter more. To send it would
// only make its outcome unknown. It is never late in the first half of its time.
func (q *queue) late(r *request, now time.Time) bool {
	return !r.deadline.IsZero() && r.deadline.Sub(now) < min(q.took*5/4, r.deadline.Sub(r.arrived)/2)
}

// run sends one batch after the other until there is none to send.
func (q *queue) run() {
	for b := q.fill(nil); b != nil; b = q.fill(b) {
		q.send(b)
		q.linger(len(b.requests))
	}
}

// linger lets those who have just been answered come back, as callers often do
// at once: then they are in the next batch and not the one after. They are
// about to run; who does something else first is not waited for.
func (q *queue) linger(answered int) {
	for range 4 {
		runtime.Gosched()
		q.mu.Lock()
		back := len(q.requests) >= answered
		q.mu.Unlock()
		if back {
			return
		}
	}
}

// fill ends b, if there is one, and fills the next batch: with all that
// are of one kind and want no bucket that is under way or that somebody wants
// who came earlier and has to wait. It is nil if there is none, or not enough.
func (q *queue) fill(b *batch) *batch {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b != nil {
		q.end(b)
	}
	b = q.idle[len(q.idle)-1]
	q.rest = q.rest[:0]
	another, now := false, time.Now()
	q.requests = slices.DeleteFunc(q.requests, func(r *request) bool {
		late := q.late(r, now)
		if late {
			r.answer(q.refusal(r))
		}
		return late
	})
	for _, r := range q.requests {
		wait := slices.ContainsFunc(r.hashes, q.mustWait)
		if !wait && b.add(r) {
			continue
		}
		another = another || !wait
		for _, h := range r.hashes {
			q.waiting[h] = struct{}{}
		}
		q.rest = append(q.rest, r)
	}
	clear(q.waiting)
	n := len(b.requests)
	if n == 0 || !q.worthwhile(n) {
		b.clear()
		q.running--
		q.ended.Broadcast()
		return nil
	}
	q.requests, q.rest = q.rest, q.requests
	clear(q.rest)
	q.idle = q.idle[:len(q.idle)-1]
	q.underWay += n
	b.departed = now
	b.depart(q.busy)
	if another && q.running < maxBatches && q.worthwhile(len(q.requests)) {
		q.running++
		go q.run()
	}
	return b
}

func (q *queue) mustWait(hash uint64) bool {
	_, waiting := q.waiting[hash]
	return waiting || q.isBusy(hash)
}

func (q *queue) end(b *batch) {
	q.underWay -= len(b.requests)
	if !b.failed {
		q.answers++
		q.took = time.Since(b.departed)
	}
	for _, h := range b.hashes {
		if q.busy[h]--; q.busy[h] == 0 {
			delete(q.busy, h)
		}
	}
	b.clear()
	q.idle = append(q.idle, b)
}

// close refuses new requests and waits until the others are answered.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closing = true
	for q.running > 0 {
		q.ended.Wait()
	}
}
