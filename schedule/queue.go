package schedule

import (
	"context"

	"github.com/sluice-go/sluice/internal/combine"
)

const (
	// maxBatches is how many calls of Assign go to the store at once; what
	// comes meanwhile goes together into the next. Some can be decided while
	// others are written to the disk.
	maxBatches = 4

	// maxBatch bounds how many go together.
	maxBatch = 500
)

// waiter is one event to assign. Events that are assigned one by one, at the
// same time, share transactions: each commit waits for the disk, so they wait
// for it together.
type waiter struct {
	combine.Ticket
	ctx     context.Context
	request *Request
	slot    Slot
}

// combine makes s ready to assign events together.
func (s *Scheduler) combine() {
	s.queue.Start(&combine.Rules[*waiter]{
		Alone: s.assignAlone, Send: s.assignTogether,
		Ready: func(calls, _, _ int) bool { return calls < maxBatches },
		Size:  func(waiting []*waiter) int { return min(len(waiting), maxBatch) },
	})
}

func (s *Scheduler) assignAlone(ctx context.Context, w *waiter) (err error) {
	w.slot, err = s.assign(ctx, w.request)
	return err
}

// assignTogether assigns the events of a batch.
func (s *Scheduler) assignTogether(batch []*waiter) {
	// Nobody's context ends what the others wait for; the store limits how
	// long it takes.
	ctx := context.WithoutCancel(batch[0].ctx)
	if len(batch) == 1 {
		batch[0].Answer(s.assignAlone(ctx, batch[0]))
		return
	}
	requests := make([]Request, len(batch))
	for i, w := range batch {
		requests[i] = *w.request
	}
	results, err := s.assignBatch(ctx, requests)
	for i, w := range batch {
		if err != nil {
			w.Answer(err)
			continue
		}
		w.slot = results[i].Slot
		w.Answer(results[i].Err)
	}
}
