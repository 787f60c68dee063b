package failover

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-go/sluice"
)

// CheckEvery is how often a [Store] that is not in the normal state asks the
// inner store by itself, so that recovery needs no callers.
const CheckEvery = time.Second / 2

// checkTake is what a health check asks for: a thousandth of a token that is back a
// microsecond later, from a bucket that nobody else uses. It is a take and not
// a peek because a store that cannot write must not pass for a healthy one.
var checkTake = sluice.Take{Demands: []sluice.Demand{{Key: sluice.Key{Limit: "failover check"}, Limit: free, Cost: sluice.Thousandths(1)}}}

// checking is the goroutine that makes the health checks. It runs only while the state is not
// normal.
type checking struct {
	ask     func(context.Context, pass)
	running bool // guarded by the breaker's mutex, as is starting it
	stopped chan struct{}

	closing context.Context
	close   context.CancelFunc
}

func (ch *checking) init(parent context.Context, ask func(context.Context, pass)) {
	ch.ask = ask
	ch.closing, ch.close = context.WithCancel(parent)
}

// keepChecking makes sure that the goroutine runs. The caller holds the mutex.
func (b *breaker) keepChecking() {
	if b.checking.running || b.checking.closing.Err() != nil {
		return
	}
	b.checking.running, b.checking.stopped = true, make(chan struct{})
	go b.checkOn(b.checking.stopped)
}

func (b *breaker) checkOn(stopped chan<- struct{}) {
	defer close(stopped)
	ticker := time.NewTicker(CheckEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-b.checking.closing.Done():
		}
		p, ok := b.admitCheck()
		if !ok {
			return
		}
		b.checking.ask(b.checking.closing, p)
	}
}

// admitCheck is the pass for the next health check. It does not wait for the back-off,
// nor for a call that is out. If none is needed any more, the goroutine counts
// as ended.
func (b *breaker) admitCheck() (pass, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state() == Normal || b.checking.closing.Err() != nil {
		b.checking.running = false
		return pass{}, false
	}
	return pass{by: b, word: b.word.Load()}, true
}

// stopChecking ends the goroutine and waits for it.
func (b *breaker) stopChecking() {
	b.checking.close()
	b.mu.Lock()
	stopped := b.checking.stopped
	b.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

// check is one health check, of a part of the store.
func (s *Store) check(ctx context.Context, p pass) {
	c := s.begin(ctx, p)
	var err error
	if key, ok := s.probedBy(p.by); ok {
		var d sluice.Decision
		take := checkTake
		take.Demands = slices.Clone(take.Demands)
		take.Demands[0].Key = key
		err = s.inner.Take(c.ctx, &take, &d)
	}
	_, _ = c.end(err) // the breaker has learned of it
}
