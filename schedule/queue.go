package schedule

import (
	"context"
	"sync"
)

const (
	// maxBatches is how many calls of Assign go to the store at once; what
	// comes meanwhile goes together into the next. Some can be decided while
	// others are written to the disk.
	maxBatches = 4

	// maxBatch bounds how many go together.
	maxBatch = 500
)

// queue lets events that are assigned one by one, at the same time, share
// transactions. Each commit waits for the disk; so they wait for it together.
type queue struct {
	s *Scheduler

	mu      sync.Mutex
	running int // batches
	waiting []*waiter
}

// waiter is one event that waits for a batch.
type waiter struct {
	ctx     context.Context
	request *Request
	result  chan Result
}

// assign assigns r at once, if few others are being assigned, or with the next
// batch.
func (q *queue) assign(ctx context.Context, r *Request) (Slot, error) {
	q.mu.Lock()
	if q.running < maxBatches {
		q.running++
		q.mu.Unlock()
		slot, err := q.s.assign(ctx, r)
		q.next()
		return slot, err
	}
	w := &waiter{ctx, r, make(chan Result, 1)}
	q.waiting = append(q.waiting, w)
	q.mu.Unlock()
	select {
	case result := <-w.result:
		return result.Slot, result.Err
	case <-ctx.Done():
		return Slot{}, ctx.Err() // it may be assigned all the same
	}
}

// next ends a batch and starts the next, if somebody waits.
func (q *queue) next() {
	q.mu.Lock()
	n := min(len(q.waiting), maxBatch)
	batch := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	if n == 0 {
		q.running--
		q.waiting = nil
	}
	q.mu.Unlock()
	if n > 0 {
		go func() {
			q.run(batch)
			q.next()
		}()
	}
}

// run assigns the events of a batch.
func (q *queue) run(batch []*waiter) {
	// Nobody's context ends what the others wait for; the store limits how
	// long it takes.
	ctx := context.WithoutCancel(batch[0].ctx)
	requests := make([]Request, 0, len(batch))
	left := batch[:0]
	for _, w := range batch {
		if w.ctx.Err() == nil {
			requests, left = append(requests, *w.request), append(left, w)
		}
	}
	if len(left) == 0 {
		return
	}
	if len(left) == 1 {
		slot, err := q.s.assign(ctx, left[0].request)
		left[0].result <- Result{slot, err}
		return
	}
	results, err := q.s.assignBatch(ctx, requests)
	for i, w := range left {
		if err != nil {
			w.result <- Result{Err: err}
		} else {
			w.result <- results[i]
		}
	}
}
