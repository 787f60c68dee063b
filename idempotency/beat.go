package idempotency

import (
	"context"
	"errors"
	"sync"
	"time"
)

// beat extends a claim while its work goes on.
type beat struct {
	keeper *Keeper
	scope  Scope
	token  Token
	life   time.Duration
	end    time.Time   // when the work has taken too long; zero for never
	lost   func(error) // is told why there is no claim to extend any more

	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

// beats starts extending. Most work ends before the first time, so it costs
// no more than a timer.
func (k *Keeper) beats(s Scope, token Token, life, most time.Duration, lost func(error)) *beat {
	b := &beat{keeper: k, scope: s, token: token, life: life, lost: lost}
	if most > 0 {
		b.end = time.Now().Add(most)
	}
	first := life / 3
	if most > 0 && life >= most { // there is nothing to extend
		first = most
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer = time.AfterFunc(b.next(first), b.extend)
	return b
}

// next is the time until the next beat, but not beyond the end.
func (b *beat) next(d time.Duration) time.Duration {
	if b.end.IsZero() {
		return d
	}
	return max(0, min(d, time.Until(b.end)))
}

func (b *beat) extend() {
	if !b.end.IsZero() && !time.Now().Before(b.end) {
		b.lost(ErrTooLong)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.life/3)
	defer cancel()
	err := b.keeper.store.Extend(ctx, b.scope.ID(), b.token, b.life)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped:
	case errors.Is(err, ErrLost):
		b.lost(ErrLost)
	case err != nil:
		// There is time for some more attempts before the claim lapses.
		b.keeper.log.Warn("idempotency: a claim could not be extended", "route", b.scope.Route, "error", err)
		b.timer.Reset(b.next(b.life / 10))
	default:
		b.timer.Reset(b.next(b.life / 3))
	}
}

func (b *beat) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	b.timer.Stop()
}
