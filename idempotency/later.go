package idempotency

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sluice-go/sluice/internal/backoff"
)

// Work that was done while the store could not be told is told again and
// again, for a while, so that an outage of the store does not make it run
// twice. How much may wait so is bounded.
const (
	laterMost  = 1000
	laterBytes = 64 << 20
	laterFor   = 15 * time.Minute
)

var laterPauses = backoff.Pauses{First: 100 * time.Millisecond, Max: 5 * time.Second}

type later struct {
	count, bytes atomic.Int64
}

// settleLater goes on trying, in the background, to end a claim: with a
// response, or by releasing it if there is none.
func (k *Keeper) settleLater(s Scope, token Token, r *Response, ttl time.Duration) {
	size := int64(0)
	if r != nil {
		size = int64(len(r.Body))
	}
	// Both, before either is looked at, so that both can be taken back.
	count, bytes := k.later.count.Add(1), k.later.bytes.Add(size)
	if count > laterMost || bytes > laterBytes || k.life.Err() != nil {
		k.later.count.Add(-1)
		k.later.bytes.Add(-size)
		k.log.Error("idempotency: a result is lost: the store is away, and too many wait for it", "route", s.Route)
		return
	}
	k.wg.Go(func() {
		defer k.later.count.Add(-1)
		defer k.later.bytes.Add(-size)
		until := time.Now().Add(laterFor)
		for n := 1; ; n++ {
			last := !time.Now().Before(until)
			last = !laterPauses.Wait(k.life, n) || last
			// Not the keeper's life: the last attempt comes after it.
			ctx, cancel := context.WithTimeout(context.Background(), storePatience)
			var err error
			if r != nil {
				err = k.finish(ctx, s, token, Done, r, ttl)
			} else {
				err = k.Release(ctx, s, token)
			}
			cancel()
			if err == nil || errors.Is(err, ErrLost) {
				return
			}
			if last {
				k.log.Error("idempotency: a result is lost: the store was away for too long", "route", s.Route, "error", err)
				return
			}
		}
	})
}
