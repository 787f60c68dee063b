package memory

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-go/sluice"
)

// watchers are told of room that is made. There are few and they stay, so that
// telling them needs no lock.
type watchers struct {
	mu  sync.Mutex
	all atomic.Pointer[[]func(sluice.Key)]
}

// Watch tells each of several limiters on the store of room that the others
// make.
func (s *Store) Watch(wake func(sluice.Key)) {
	ws := &s.watchers
	ws.mu.Lock()
	var all []func(sluice.Key)
	if before := ws.all.Load(); before != nil {
		all = slices.Clone(*before)
	}
	all = append(all, wake)
	ws.all.Store(&all)
	ws.mu.Unlock()
	wake(sluice.AnyKey)
}

// tell says that there is room in a bucket. The caller has unlocked its shard.
func (ws *watchers) tell(k *sluice.Key) {
	if all := ws.all.Load(); all != nil {
		for _, wake := range *all {
			wake(*k)
		}
	}
}

// settled tells of what a change gave back. One that ends a lease frees its
// place in a concurrency limit, too.
func (ws *watchers) settled(d *sluice.Decision, ends bool) {
	for i := range d.Results {
		if dm := &d.Demands[i]; d.Results[i].Returned.Thousandths() > 0 || ends && dm.Limit.Algorithm == sluice.Concurrency {
			ws.tell(&dm.Key)
		}
	}
}

// left tells of the tickets that a refused take has removed: what they wanted
// is there for others.
func (ws *watchers) left(t *sluice.Take, d *sluice.Decision, places []place) {
	for i := range places {
		if places[i].left && !d.Allowed {
			ws.tell(&t.Demands[i].Key)
		}
	}
}
