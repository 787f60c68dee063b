package schedule

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
)

// permits bounds starts by their answers, for [ByAnswer]: of n permits one is in
// use from a start until a period after its answer. A request is received
// between its start and its answer, so at the moment of the last receipt in any
// period, all requests received in that period have a permit. Hence there are n
// at most, whatever the delays.
//
// The permits are those of a concurrency limit that all dispatchers share. Each
// leases a share at a time and uses it again and again, so the store is asked a
// few times a second however many starts there are. A lease is not renewed: when
// it has served its turn it is given back as soon as so many permits are not in
// use, and another is waited for in line. So dispatchers that all want everything
// get the same.
//
// A lease outlasts what was started under it: nothing starts that may be in use
// when the leases that cover it have expired. Leases are given back oldest
// first, so that this stays so.
type permits struct {
	limiter *sluice.Limiter
	clock   *clock
	log     *slog.Logger
	key     sluice.Key
	n       int64
	period  time.Duration
	timeout time.Duration

	mu      sync.Mutex
	leases  []permitLease // oldest first
	running int64
	cooling []time.Time // when permits are free again whose starts were answered, in order
	paced   time.Time   // when the last start was due, as starts are spread evenly
	last    time.Time   // when a start was last wanted

	changed chan struct{} // there may be a permit
	wanted  chan struct{} // there is none
}

// permitLease is a number of permits.
type permitLease struct {
	id       string
	n        int64
	asked    time.Time // before it was granted
	retiring bool      // nothing starts under it any more
}

const (
	// permitShares is how many leases all permits are divided into.
	permitShares = 16

	// permitSlack is for how long a lease is used past its turn, while those
	// before it are given back, and by how much it outlasts that.
	permitSlack = 2 * time.Second

	// longestPeriod is the longest period that is counted as it is; see
	// receiverLimit.
	longestPeriod = 10 * time.Second

	maxPermits = 100_000 // the greatest concurrency limit
)

// receiverLimit returns a number of starts for a period that never exceeds l: in
// no period of l's does it allow more than l's amount. A permit of a process that
// dies is lost for a period and more, so n per period is taken for n/k per
// period/k where the period is long.
func receiverLimit(l sluice.Limit) (n int64, period time.Duration) {
	n, period = l.Amount.Whole(), l.Period
	if n < 1 { // one token takes more than a period
		return 1, time.Duration(float64(l.Period)*float64(sluice.Token)/float64(l.Amount.Thousandths())) + time.Microsecond
	}
	most := min(n, maxPermits)
	if period > longestPeriod {
		most = min(most, max(int64(float64(n)*float64(longestPeriod)/float64(period)), 1))
	}
	for n%most != 0 {
		most--
	}
	parts := time.Duration(n / most)
	return most, (period + parts - 1) / parts
}

func newPermits(c *DispatcherConfig, clock *clock, log *slog.Logger) *permits {
	n, period := receiverLimit(c.Limit)
	return &permits{
		limiter: c.Limiter, clock: clock, log: log.With("plan", c.Plan), key: c.Key, n: n, period: period, timeout: c.Timeout,
		changed: make(chan struct{}, 1), wanted: make(chan struct{}, 1),
	}
}

// turn is for how long a lease is used if others want permits, too.
func (p *permits) turn() time.Duration { return max(2*time.Second, 3*p.period) }

// covering is how old a lease may be for a start to be covered by it.
func (p *permits) covering() time.Duration { return p.turn() + permitSlack }

// lifetime is how long the store keeps a lease.
func (p *permits) lifetime() time.Duration {
	return p.covering() + p.timeout + p.period + permitSlack
}

// age is how old a lease may be: by the wall clock if that has run ahead, as
// after the machine was suspended.
func (l *permitLease) age(now time.Time) time.Duration {
	return max(now.Sub(l.asked), now.Round(0).Sub(l.asked.Round(0)))
}

// grant waits for a permit and uses it.
func (p *permits) grant(ctx context.Context) (wait time.Duration, granted time.Time, ok bool) {
	for ctx.Err() == nil {
		wait := p.try(time.Now())
		if wait == 0 {
			return 0, p.clock.now(), true
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-p.changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return 0, time.Time{}, false
}

// try uses a permit if there is one and the next start is due, or returns how
// long until it should be tried again.
func (p *permits) try(now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = now
	p.cool(now)
	covered := int64(0)
	for i := range p.leases {
		if l := &p.leases[i]; !l.retiring && l.age(now) < p.covering() {
			covered += l.n
		}
	}
	if p.inUse() >= covered {
		signal(p.wanted)
		return p.soonest(now)
	}
	due := p.paced.Add(p.period / time.Duration(covered))
	if due.After(now) {
		signal(p.wanted) // with more permits it would be sooner
		return due.Sub(now)
	}
	// A wake-up that came a little late is made up for.
	if p.paced = now.Add(-p.period / 20); due.After(p.paced) {
		p.paced = due
	}
	p.running++
	return 0
}

// answered has a permit cool down: the start that used it has ended.
func (p *permits) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.cooling = append(p.cooling, time.Now().Add(p.period))
	signal(p.changed)
}

// unused gives back the permit of a start that came to nothing.
func (p *permits) unused() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	signal(p.changed)
}

func (p *permits) inUse() int64 { return p.running + int64(len(p.cooling)) }

// cool forgets the permits that have cooled down. A permit that cools until now
// is still in use, as its start may have been received a period ago.
func (p *permits) cool(now time.Time) {
	i := 0
	for i < len(p.cooling) && p.cooling[i].Before(now) {
		i++
	}
	p.cooling = p.cooling[i:]
}

// soonest is how long it takes until a permit has cooled down.
func (p *permits) soonest(now time.Time) time.Duration {
	if len(p.cooling) == 0 {
		return lookEvery
	}
	return p.cooling[0].Sub(now) + time.Microsecond
}

// keep leases permits while some are wanted, and gives them back.
func (p *permits) keep(ctx context.Context) {
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.wanted:
				p.acquire(ctx)
			}
		}
	})
	for ctx.Err() == nil {
		if id, wait := p.retire(time.Now()); id != "" {
			p.release(ctx, id)
		} else {
			backoff.Sleep(ctx, wait)
		}
	}
	group.Wait()
	p.close(ctx)
}

// acquire waits in line for a share of the permits.
func (p *permits) acquire(ctx context.Context) {
	p.mu.Lock()
	most := min((p.n+permitShares-1)/permitShares, p.n-p.held())
	p.mu.Unlock()
	if most <= 0 {
		return
	}
	demands := []sluice.Demand{{
		Key: p.key, Limit: sluice.Limit{Algorithm: sluice.Concurrency, Amount: sluice.Tokens(p.n)}, Cost: sluice.Tokens(most),
		Critical: true, OnUnavailable: sluice.Deny,
	}}
	asked := time.Now()
	lease, decision, err := p.limiter.WaitAcquire(ctx, sluice.Take{
		Demands: demands, UpTo: true, Keep: p.lifetime(),
		Resolve: func(context.Context, *sluice.Take) error { asked = time.Now(); return nil },
	})
	if err != nil || lease == nil || decision.Source != sluice.FromStore {
		if ctx.Err() == nil {
			p.log.Warn("no permits could be had; what needs one waits", "error", err)
			backoff.Sleep(ctx, ahead)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leases = append(p.leases, permitLease{id: lease.ID, n: decision.Granted.Whole(), asked: asked})
	signal(p.changed)
}

func (p *permits) held() (n int64) {
	for i := range p.leases {
		n += p.leases[i].n
	}
	return n
}

// retire takes out the oldest lease once its turn is over, or nothing was wanted
// for a while, and its permits are not in use. If there is none, it returns how
// long until it should be tried again.
func (p *permits) retire(now time.Time) (id string, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.leases) == 0 {
		return "", lookEvery
	}
	oldest := &p.leases[0]
	idle := now.Sub(p.last) > lookEvery
	if !idle && !oldest.retiring && oldest.age(now) < p.turn() {
		return "", min(p.turn()-oldest.age(now), lookEvery)
	}
	p.cool(now)
	oldest.retiring = !idle || oldest.age(now) >= p.turn()
	if p.held()-p.inUse() < oldest.n && oldest.age(now) < p.lifetime() {
		return "", min(p.soonest(now), lookEvery)
	}
	id = oldest.id
	p.leases = p.leases[1:]
	return id, 0
}

// release gives a lease back. If that fails, it expires.
func (p *permits) release(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), permitSlack)
	defer cancel()
	if err := p.limiter.Lease(id).Release(ctx); err != nil {
		p.log.Warn("permits could not be given back; they come back later", "error", err)
	}
}

// close gives everything back once nothing is running: what cools down is left
// to expire.
func (p *permits) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), permitSlack)
	defer cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.cool(now)
	for _, l := range p.leases {
		lease := p.limiter.Lease(l.id)
		var err error
		if len(p.cooling) == 0 {
			err = lease.Release(ctx)
		} else {
			err = lease.Renew(ctx, p.cooling[len(p.cooling)-1].Sub(now)+permitSlack/10)
		}
		if err != nil {
			p.log.Warn("permits could not be given back; they come back later", "error", err)
		}
	}
	p.leases = nil
}

// signal wakes whoever waits on c, now or next.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
