package limitstore

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/sluice-go/sluice/postgres"
)

// flights send requests to the database in batches: while a bucket is in one
// that is under way, further takes of it wait for the next. That is what keeps
// a bucket that everybody wants from costing a commit for every token, and this
// process from queuing at locks in the database. Takes of other buckets do not
// wait, as long as there are not too many flights.
type flights struct {
	fly func(*batch)

	mu      sync.Mutex
	queue   []*request          // in order of arrival
	busy    map[uint64]int      // hashes of buckets under way, with how many takes
	waiting map[uint64]struct{} // of buckets that an earlier take in the queue wants
	rest    []*request          // those of the queue that stay in it
	flying  int                 // flights
	aloft   int                 // requests in them
	idle    []*batch
	landed  sync.Cond
	closing bool
}

const (
	// maxFlights is how many batches can be under way at once.
	maxFlights = 4

	// Large batches are cheaper, so while more than a few takes are under way,
	// the next flight leaves only if there is a crowd for it; otherwise they
	// wait for one to land. With few takes, there is nothing to save.
	crowd = 16
	few   = 4

	// More in a batch would keep its buckets locked for too long.
	maxTakes   = 256
	maxDemands = 1024
)

func newFlights(fly func(*batch)) *flights {
	f := &flights{fly: fly, busy: map[uint64]int{}, waiting: map[uint64]struct{}{}}
	f.landed.L = &f.mu
	for range maxFlights {
		f.idle = append(f.idle, &batch{})
	}
	return f
}

// do has r answered, or answers itself if ctx ends before.
func (f *flights) do(ctx context.Context, r *request) error {
	if err := f.submit(r); err != nil {
		return err
	}
	select {
	case <-r.answered:
		return nil
	case <-ctx.Done():
	}
	if f.withdraw(r) {
		return ctx.Err()
	}
	select {
	case <-r.answered: // just in time
		return nil
	default:
		return postgres.UnknownError(ctx.Err())
	}
}

func (f *flights) submit(r *request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return postgres.ErrClosed
	}
	f.queue = append(f.queue, r)
	if f.flying < maxFlights && f.worthwhile(len(f.queue)) && !slices.ContainsFunc(r.hashes, f.isBusy) {
		f.flying++
		go f.run()
	}
	return nil
}

// resubmit puts back a request that could not be decided.
func (f *flights) resubmit(r *request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = append(f.queue, r) // a flight is about to land, which takes it along
}

// worthwhile reports whether a flight with n takes is better than waiting for
// another one to land.
func (f *flights) worthwhile(n int) bool { return f.aloft <= few || n >= crowd }

func (f *flights) isBusy(hash uint64) bool { return f.busy[hash] > 0 }

// withdraw takes r out of the queue, and reports whether it still was there.
func (f *flights) withdraw(r *request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.queue, r)
	if i < 0 {
		return false
	}
	f.queue = slices.Delete(f.queue, i, i+1)
	return true
}

// run sends one batch after the other until there is none to send.
func (f *flights) run() {
	for b := f.board(nil); b != nil; b = f.board(b) {
		f.fly(b)
		f.linger(len(b.requests))
	}
}

// linger lets those who have just been answered come back, as callers often do
// at once: then they are on the next flight and not the one after. They are
// about to run; who does something else first is not waited for.
func (f *flights) linger(answered int) {
	for range 4 {
		runtime.Gosched()
		f.mu.Lock()
		back := len(f.queue) >= answered
		f.mu.Unlock()
		if back {
			return
		}
	}
}

// board ends the flight of b, if any, and fills the next batch: with all that
// are of one kind and want no bucket that is under way or that somebody wants
// who came earlier and has to wait. It is nil if there is none, or not enough.
func (f *flights) board(b *batch) *batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b != nil {
		f.land(b)
	}
	b = f.idle[len(f.idle)-1]
	f.rest = f.rest[:0]
	another := false
	for _, r := range f.queue {
		wait := slices.ContainsFunc(r.hashes, f.mustWait)
		if !wait && b.add(r) {
			continue
		}
		another = another || !wait
		for _, h := range r.hashes {
			f.waiting[h] = struct{}{}
		}
		f.rest = append(f.rest, r)
	}
	clear(f.waiting)
	n := len(b.requests)
	if n == 0 || !f.worthwhile(n) {
		b.clear()
		f.flying--
		f.landed.Broadcast()
		return nil
	}
	f.queue, f.rest = f.rest, f.queue
	clear(f.rest)
	f.idle = f.idle[:len(f.idle)-1]
	f.aloft += n
	b.depart(f.busy)
	if another && f.flying < maxFlights && f.worthwhile(len(f.queue)) {
		f.flying++
		go f.run()
	}
	return b
}

func (f *flights) mustWait(hash uint64) bool {
	_, waiting := f.waiting[hash]
	return waiting || f.isBusy(hash)
}

func (f *flights) land(b *batch) {
	f.aloft -= len(b.requests)
	for _, h := range b.hashes {
		if f.busy[h]--; f.busy[h] == 0 {
			delete(f.busy, h)
		}
	}
	b.clear()
	f.idle = append(f.idle, b)
}

// close refuses new requests and waits until the others are answered.
func (f *flights) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = true
	for f.flying > 0 {
		f.landed.Wait()
	}
}
