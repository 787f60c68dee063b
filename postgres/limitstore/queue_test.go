package limitstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
)

// crowded has so many callers ask, one after the other within a second, with a
// time-out of 250 ms each, and returns how many got which error.
func crowded(q *queue, callers int, bucket func(caller int) uint64) map[string]int {
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			time.Sleep(time.Duration(i) * time.Second / time.Duration(callers))
			ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
			defer cancel()
			r := &request{kind: plainTake, hashes: []uint64{bucket(i)}, answered: make(chan struct{}, 1)}
			err := q.do(ctx, r)
			if err == nil {
				err = r.err
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				got["answered"]++
			case errors.Is(err, sluice.ErrUnknown):
				got["unknown"]++
			case errors.Is(err, sluice.ErrBusy):
				got["busy"]++
			case errors.Is(err, sluice.ErrUnavailable):
				got["unavailable"]++
			default:
				got[err.Error()]++
			}
		})
	}
	all.Wait()
	return got
}

// A database that is slower than its callers come, because the machine is busy,
// refuses some of them. None of them has to wonder.
func TestATakeThatWouldBeLateIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func(b *batch) {
			time.Sleep(100 * time.Millisecond)
			for _, r := range b.requests {
				r.answer(nil)
			}
		})
		defer q.close()
		got := crowded(q, 5000, func(int) uint64 { return 1 })
		if got["unknown"] != 0 || got["unavailable"] != 0 || got["answered"] < 10*maxTakes || got["answered"]+got["busy"] != 5000 {
			t.Error(got)
		}
	})
}

func TestADatabaseThatDoesNotAnswerIsNotBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(func(b *batch) {
			time.Sleep(4 * time.Second)
			b.fail(sluice.ErrUnknown)
		})
		defer q.close()
		got := crowded(q, 1000, func(int) uint64 { return 1 })
		if got["busy"] != 0 || got["unknown"] == 0 || got["unavailable"] == 0 || got["answered"] != 0 {
			t.Error(got)
		}
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		q := newQueue(func(b *batch) {
			<-release
			for _, r := range b.requests {
				r.answer(nil)
			}
		})
		defer q.close()
		var callers sync.WaitGroup
		ask := func() error {
			return q.do(t.Context(), &request{kind: plainTake, hashes: []uint64{1}, answered: make(chan struct{}, 1)})
		}
		for range maxWaiting + 1 { // one is under way
			callers.Go(func() {
				if err := ask(); err != nil {
					t.Error(fmt.Errorf("one who has a place: %w", err))
				}
			})
			synctest.Wait()
		}
		if err := ask(); !errors.Is(err, sluice.ErrBusy) || !errors.Is(err, sluice.ErrUnavailable) {
			t.Errorf("one too many: %v", err)
		}
		close(release)
		callers.Wait()
	})
}
