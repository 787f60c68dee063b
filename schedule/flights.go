package schedule

import (
	"context"
	"sync"
)

const (
	// maxFlights is how many calls of Assign go to the store at once; what
	// comes meanwhile goes together into the next. Some can be decided while
	// others are written to the disk.
	maxFlights = 4

	// maxFlight bounds how many go together.
	maxFlight = 500
)

// flights lets events that are assigned one by one, at the same time, share
// transactions. Each commit waits for the disk; so they wait for it together.
type flights struct {
	s *Scheduler

	mu      sync.Mutex
	flying  int
	waiting []*passenger
}

// passenger is one event that waits for a flight.
type passenger struct {
	ctx     context.Context
	request *Request
	result  chan Result
}

// assign assigns r at once, if few others are being assigned, or with the next
// flight.
func (f *flights) assign(ctx context.Context, r *Request) (Slot, error) {
	f.mu.Lock()
	if f.flying < maxFlights {
		f.flying++
		f.mu.Unlock()
		slot, err := f.s.assign(ctx, r)
		f.land()
		return slot, err
	}
	p := &passenger{ctx, r, make(chan Result, 1)}
	f.waiting = append(f.waiting, p)
	f.mu.Unlock()
	select {
	case result := <-p.result:
		return result.Slot, result.Err
	case <-ctx.Done():
		return Slot{}, ctx.Err() // it may be assigned all the same
	}
}

// land ends a flight and starts the next, if somebody waits.
func (f *flights) land() {
	f.mu.Lock()
	n := min(len(f.waiting), maxFlight)
	next := f.waiting[:n:n]
	f.waiting = f.waiting[n:]
	if n == 0 {
		f.flying--
		f.waiting = nil
	}
	f.mu.Unlock()
	if n > 0 {
		go func() {
			f.fly(next)
			f.land()
		}()
	}
}

// fly assigns the events of all passengers.
func (f *flights) fly(all []*passenger) {
	// Nobody's context ends what the others wait for; the store limits how
	// long it takes.
	ctx := context.WithoutCancel(all[0].ctx)
	requests := make([]Request, 0, len(all))
	aboard := all[:0]
	for _, p := range all {
		if p.ctx.Err() == nil {
			requests, aboard = append(requests, *p.request), append(aboard, p)
		}
	}
	if len(aboard) == 0 {
		return
	}
	if len(aboard) == 1 {
		slot, err := f.s.assign(ctx, aboard[0].request)
		aboard[0].result <- Result{slot, err}
		return
	}
	results, err := f.s.assignBatch(ctx, requests)
	for i, p := range aboard {
		if err != nil {
			p.result <- Result{Err: err}
		} else {
			p.result <- results[i]
		}
	}
}
