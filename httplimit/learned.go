package httplimit

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/backoff"
)

// learned is what all processes know about an upstream. It is kept in two
// buckets of their store, so that time in the store undoes it:
//
//   - pause has a million tokens a second. A debt of n seconds' worth means
//     that nobody sends for n seconds.
//   - pace is full at full speed and half full at half of it.
//
// Each process looks at them a few times a second at most.
type learned struct {
	config *TransportConfig
	pause  sluice.Demand
	pace   sluice.Demand

	mu       sync.Mutex
	looked   time.Time
	known    float64 // the pace as last seen
	refusals int     // in a row, as this process saw them
}

const (
	// fresh is for how long what was seen is acted on.
	fresh = 200 * time.Millisecond
	// slowest is the pace that refusals stop at: somebody has to try.
	slowest = 1.0 / 16

	pausePerSecond = 1_000_000 * sluice.Token
	paceCapacity   = 1_000_000 * sluice.Token
	look           = 1 // what a look costs: a thousandth of a token
)

func newLearned(c *TransportConfig) *learned {
	key := sluice.Key{Namespace: c.Namespace, Entity: "upstream", Resource: c.Upstream}
	pause, pace := key, key
	pause.Limit, pace.Limit = "pause", "pace"
	return &learned{
		config: c, known: 1,
		pause: sluice.Demand{Key: pause, Limit: sluice.Limit{Amount: sluice.Thousandths(pausePerSecond), Period: time.Second}, Cost: sluice.Thousandths(look), Critical: true},
		pace: sluice.Demand{
			Key: pace, Limit: sluice.Limit{Amount: sluice.Thousandths(paceCapacity), Period: c.Recovery},
			Cost: sluice.Thousandths(look), Critical: true, Shadow: true, // it is read, and never blocks
		},
	}
}

// wait waits until the upstream may be asked and tells the pace. If the
// store cannot be asked, what was known last stands.
func (l *learned) wait(ctx context.Context) (float64, error) {
	l.mu.Lock()
	known, isFresh := l.known, time.Since(l.looked) < fresh
	l.mu.Unlock()
	if isFresh {
		return known, nil
	}
	if err := l.tooLong(ctx); err != nil {
		return known, err
	}
	d, err := l.config.Limiter.Wait(ctx, sluice.Take{Demands: []sluice.Demand{l.pause, l.pace}, Priority: priority(ctx)})
	if err != nil {
		if ctx.Err() != nil {
			return known, err
		}
		l.config.Log.WarnContext(ctx, "cannot look up the limits of the upstream", "upstream", l.config.Upstream, "error", err)
		return known, nil
	}
	pace := paceOf(d.Results[1].Remaining.Thousandths())
	l.mu.Lock()
	l.looked, l.known = time.Now(), pace
	l.mu.Unlock()
	return pace, nil
}

// tooLong is an error if the upstream has asked for a pause that lasts past
// ctx's deadline: nobody makes room in it, so waiting is of no use.
func (l *learned) tooLong(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	d, err := l.config.Limiter.Peek(ctx, l.pause)
	if err != nil || d.Allowed || time.Now().Add(d.RetryAfter).Before(deadline) {
		return nil
	}
	return fmt.Errorf("%w: %w", errPaused, d.Err())
}

func paceOf(remaining int64) float64 {
	return min(max(float64(remaining)/float64(paceCapacity), slowest), 1)
}

// paused looks whether a pause has begun.
func (l *learned) paused(ctx context.Context) bool {
	d, err := l.config.Limiter.Peek(ctx, l.pause)
	if err != nil || d.Allowed {
		return false
	}
	l.forget()
	return true
}

// forget makes the next request look.
func (l *learned) forget() {
	l.mu.Lock()
	l.looked = time.Time{}
	l.mu.Unlock()
}

// from learns from an answer to a request that was sent at that pace.
func (l *learned) from(ctx context.Context, r *http.Response, demands []sluice.Demand, pace float64) {
	now := time.Now()
	says := readUpstream(r, now)
	l.mu.Lock()
	if r.StatusCode == http.StatusTooManyRequests {
		l.refusals++
	} else if !refused(r) {
		l.refusals = 0
	}
	refusals := l.refusals
	l.mu.Unlock()

	pause, target := time.Duration(0), 1.0
	switch {
	case refused(r) && says.retry > 0:
		pause = says.retry
	case r.StatusCode == http.StatusTooManyRequests && says.exhausted:
		pause = max(says.reset, time.Second)
	case r.StatusCode == http.StatusTooManyRequests:
		pause = backoff.Pauses{First: time.Second, Max: 64 * time.Second}.After(refusals) // it did not say
	case says.exhausted:
		pause = says.reset
	case says.scarce:
		target = spread(says, demands)
	}
	if r.StatusCode == http.StatusTooManyRequests {
		target = pace / 2
	}
	if pause = min(pause, l.config.MaxPause); pause > 0 {
		l.config.Log.InfoContext(ctx, "the upstream asked for a pause", "upstream", l.config.Upstream, "status", r.StatusCode, "pause", pause)
		l.lower(ctx, l.pause, look-int64(pause.Seconds()*float64(pausePerSecond)))
	}
	if target < 1 {
		l.lower(ctx, l.pace, int64(max(target, slowest)*float64(paceCapacity)))
	}
}

// spread is the pace at which what is left lasts until it is renewed.
func spread(says upstream, demands []sluice.Demand) float64 {
	fastest := math.Inf(1)
	for i := range demands {
		if l := demands[i].Limit; l.Period > 0 && !demands[i].Shadow {
			requests := float64(l.Amount.Thousandths()) / float64(demands[i].Charge().Thousandths())
			fastest = min(fastest, requests/l.Period.Seconds())
		}
	}
	if math.IsInf(fastest, 1) || says.reset <= 0 {
		return 1
	}
	return float64(says.remaining) / says.reset.Seconds() / fastest
}

// lower takes a bucket down to what is given, if it has more. Processes that
// learn the same thing at once do not add up: whoever comes second sees in
// the answer to its own change that it was too much, and gives that back.
func (l *learned) lower(ctx context.Context, demand sluice.Demand, to int64) {
	defer l.forget()
	d, err := l.config.Limiter.Peek(ctx, demand)
	if err == nil && d.Results[0].Remaining.Thousandths() > to {
		demand.Cost = sluice.Thousandths(d.Results[0].Remaining.Thousandths() - to)
		d, err = l.config.Limiter.Adjust(ctx, demand)
		if err == nil && d.Results[0].Remaining.Thousandths() < to {
			demand.Cost = sluice.Thousandths(d.Results[0].Remaining.Thousandths() - to)
			_, err = l.config.Limiter.Adjust(ctx, demand)
		}
	}
	if err != nil {
		l.config.Log.WarnContext(ctx, "cannot share what the upstream said", "upstream", l.config.Upstream, "error", err)
	}
}
