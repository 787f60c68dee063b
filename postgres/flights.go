package postgres

import (
	"runtime"
	"slices"
	"sync"
)

// flights send takes to the database in batches: while a bucket is in one that
// is under way, further takes of it wait for the next. That is what keeps a
// bucket that everybody wants from costing a commit for every token, and this
// process from queuing at locks in the database. Takes of other buckets do not
// wait, as long as there are not too many flights.
type flights struct {
	fly func(*batch)

	mu      sync.Mutex
	queue   []*request          // in order of arrival
	busy    map[uint64]int      // hashes of buckets under way, with how many takes
	waiting map[uint64]struct{} // of buckets that an earlier take in the queue wants
	flying  int
	idle    []*batch
	landed  sync.Cond
	closing bool
}

const (
	// maxFlights is how many batches can be under way at once. A third and a
	// fourth leave only if there are enough for them, because large batches
	// are cheaper; two leave as soon as they can, because that is faster.
	maxFlights = 4
	fewFlights = 2
	crowd      = 16

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

// submit has r answered.
func (f *flights) submit(r *request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return errClosed
	}
	f.queue = append(f.queue, r)
	if f.mayDepart() && !slices.ContainsFunc(r.hashes, f.isBusy) {
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

// mayDepart reports whether one more flight is worth while.
func (f *flights) mayDepart() bool {
	return f.flying < fewFlights || f.flying < maxFlights && len(f.queue) >= crowd
}

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
		// Those just answered often come back at once. They are about to run;
		// if they go first, they are on the next flight and not the one after.
		runtime.Gosched()
	}
}

// board ends the flight of b, if any, and fills the next batch: with all that
// are of one kind and want no bucket that is under way or that somebody wants
// who came earlier and has to wait. It is nil if there is none.
func (f *flights) board(b *batch) *batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b != nil {
		f.land(b)
	}
	b = f.idle[len(f.idle)-1]
	rest, another := f.queue[:0], false
	for _, r := range f.queue {
		wait := slices.ContainsFunc(r.hashes, f.mustWait)
		if !wait && b.add(r) {
			continue
		}
		another = another || !wait
		for _, h := range r.hashes {
			f.waiting[h] = struct{}{}
		}
		rest = append(rest, r)
	}
	clear(f.queue[len(rest):])
	f.queue = rest
	clear(f.waiting)
	if len(b.requests) == 0 {
		f.flying--
		f.landed.Broadcast()
		return nil
	}
	f.idle = f.idle[:len(f.idle)-1]
	b.depart(f.busy)
	if another && f.mayDepart() {
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
