package memory_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

// TestRoomWakesOtherLimiters: a caller that waits at one limiter is served at
// once when room is made at another on the same store.
func TestRoomWakesOtherLimiters(t *testing.T) {
	bucket := sluice.Demand{Key: sluice.Key{Entity: "a", Limit: "l"}, Limit: sluice.Per(1, time.Hour)}
	places := sluice.Demand{Key: bucket.Key, Limit: sluice.MustParse("1 concurrent")}
	back := bucket
	back.Cost = sluice.Thousandths(-sluice.Token)
	hold := sluice.HoldID{Node: 7, Seq: 1}
	acquire := func(ctx context.Context, l *sluice.Limiter, dm sluice.Demand) (*sluice.Lease, error) {
		lease, _, err := l.Acquire(ctx, sluice.Take{Demands: []sluice.Demand{dm}, Keep: time.Hour})
		return lease, err
	}
	for name, test := range map[string]struct {
		wants sluice.Demand
		fill  func(ctx context.Context, s *memory.Store, l *sluice.Limiter) (free func() error, err error)
	}{
		"refund": {bucket, func(ctx context.Context, _ *memory.Store, l *sluice.Limiter) (func() error, error) {
			_, err := l.Take(ctx, bucket)
			return func() error { _, err := l.Adjust(ctx, back); return err }, err
		}},
		"reset": {bucket, func(ctx context.Context, _ *memory.Store, l *sluice.Limiter) (func() error, error) {
			_, err := l.Take(ctx, bucket)
			return func() error { return l.Reset(ctx, bucket.Key) }, err
		}},
		"release": {bucket, func(ctx context.Context, _ *memory.Store, l *sluice.Limiter) (func() error, error) {
			lease, err := acquire(ctx, l, bucket)
			return func() error { return lease.Release(ctx) }, err
		}},
		"commit": {places, func(ctx context.Context, _ *memory.Store, l *sluice.Limiter) (func() error, error) {
			lease, err := acquire(ctx, l, places)
			return func() error { _, err := lease.Commit(ctx); return err }, err
		}},
		"return": {bucket, func(ctx context.Context, s *memory.Store, _ *sluice.Limiter) (func() error, error) {
			err := s.Hold(ctx, []sluice.HoldRequest{{Key: bucket.Key, Limit: bucket.Limit, ID: hold, Min: sluice.Tokens(1), Max: sluice.Tokens(1), TTL: time.Hour}}, make([]sluice.Grant, 1))
			return func() error {
				return s.Return(ctx, []sluice.HoldReturn{{Key: bucket.Key, Limit: bucket.Limit, ID: hold}})
			}, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := memory.Open(memory.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				here, there := sluice.New(store), sluice.New(store)
				ctx := t.Context()
				free, err := test.fill(ctx, store, there)
				if err != nil {
					t.Fatal(err)
				}
				take := sluice.Take{Demands: []sluice.Demand{test.wants}, Lease: test.wants == places}
				served := make(chan error, 1)
				go func() {
					_, _, err := here.WaitAcquire(ctx, take)
					served <- err
				}()
				time.Sleep(2500 * time.Millisecond) // not when it asks again by itself
				if err := free(); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				select {
				case err := <-served:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Error("who waits does not hear of it")
					if err := <-served; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestTicketsThatLeaveWakeOtherLimiters: whoever is before others in line, asks
// again and has to wait for something else only, lets them pass, and says so once.
func TestTicketsThatLeaveWakeOtherLimiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memory.Open(memory.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var woken []sluice.Key
		store.Watch(func(k sluice.Key) { woken = append(woken, k) })
		narrow := sluice.Demand{Key: sluice.Key{Limit: "narrow"}, Limit: sluice.Per(1, time.Second)}
		wide := sluice.Demand{Key: sluice.Key{Limit: "wide"}, Limit: sluice.Per(1, time.Hour)}
		both := sluice.Take{Demands: []sluice.Demand{narrow, wide}, Ticket: sluice.Ticket{ID: sluice.HoldID{Node: 1, Seq: 1}}}
		var d sluice.Decision
		plain := sluice.Take{Demands: both.Demands}
		for _, take := range []*sluice.Take{&plain, &both} {
			if err := sluice.New(store).Decide(t.Context(), take, &d); err != nil {
				t.Fatal(err)
			}
		}
		woken = nil
		time.Sleep(time.Second) // there is room in narrow
		for range 2 {
			if err := store.Take(t.Context(), &both, &d); err != nil || d.Allowed {
				t.Fatal(d, err)
			}
		}
		if len(woken) != 1 || woken[0] != narrow.Key {
			t.Errorf("told of room in %v, want in %v once", woken, narrow.Key)
		}
	})
}
