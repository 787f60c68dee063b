// Package backoff computes the pauses between attempts. They double up to a
// bound, and part of each is random, so that callers that failed together do
// not come back together.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses are the pauses between attempts: First, then twice as long each time,
// up to Max.
type Pauses struct{ First, Max time.Duration }

// After returns the pause after so many attempts, counted from 1, without a
// random part.
func (p Pauses) After(attempts int) time.Duration {
	pause := p.First
	for n := 1; n < attempts && pause < p.Max; n++ {
		if pause > p.Max/2 {
			return p.Max
		}
		pause *= 2
	}
	return min(pause, p.Max)
}

// Wait waits before the next attempt, for half of [Pauses.After] to all of it.
// It reports false if ctx ends first.
func (p Pauses) Wait(ctx context.Context, attempts int) bool {
	return Sleep(ctx, Jitter(p.After(attempts)))
}

// Jitter returns a random duration from half of d to d.
func Jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) }

// Sleep waits for d. It reports false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
