package failover

import (
	"context"
	"time"

	"github.com/sluice-go/sluice"
)

// ProbeEvery is how often a [Store] that is not in the normal state asks the
// inner store by itself, so that recovery needs no callers.
const ProbeEvery = time.Second / 2

// probeTake is what the probe asks for: a thousandth of a token that is back a
// microsecond later, from a bucket that nobody else uses. It is a take and not
// a peek because a store that cannot write must not pass for a healthy one.
var probeTake = sluice.Take{Demands: []sluice.Demand{{Key: sluice.Key{Limit: "failover probe"}, Limit: free, Cost: 1}}}

// probing is the goroutine that probes. It runs only while the state is not
// normal.
type probing struct {
	ask     func(context.Context, pass)
	running bool // guarded by the breaker's mutex, as is starting it
	stopped chan struct{}

	closing context.Context
	close   context.CancelFunc
}

func (pr *probing) init(ask func(context.Context, pass)) {
	pr.ask = ask
	pr.closing, pr.close = context.WithCancel(context.Background())
}

// keepProbing makes sure that the goroutine runs. The caller holds the mutex.
func (b *breaker) keepProbing() {
	if b.probing.running || b.probing.closing.Err() != nil {
		return
	}
	b.probing.running, b.probing.stopped = true, make(chan struct{})
	go b.probeOn(b.probing.stopped)
}

func (b *breaker) probeOn(stopped chan<- struct{}) {
	defer close(stopped)
	ticker := time.NewTicker(ProbeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-b.probing.closing.Done():
		}
		p, ok := b.admitProbe()
		if !ok {
			return
		}
		b.probing.ask(b.probing.closing, p)
	}
}

// admitProbe is the pass for the next probe. It does not wait for the back-off,
// nor for a call that is out. If none is needed any more, the goroutine counts
// as ended.
func (b *breaker) admitProbe() (pass, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state() == Normal || b.probing.closing.Err() != nil {
		b.probing.running = false
		return pass{}, false
	}
	return pass{word: b.word.Load()}, true
}

// stopProbing ends the goroutine and waits for it.
func (b *breaker) stopProbing() {
	b.probing.close()
	b.mu.Lock()
	stopped := b.probing.stopped
	b.mu.Unlock()
	if stopped != nil {
		<-stopped
	}
}

// probe asks the inner store for the probe's take.
func (s *Store) probe(ctx context.Context, p pass) {
	c := s.begin(ctx, p)
	var d sluice.Decision
	take := probeTake
	_, _ = c.end(s.inner.Take(c.ctx, &take, &d)) // the breaker has learned of it
}
