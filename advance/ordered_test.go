package advance_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/memory"
)

// recorder remembers the holds that were returned, and when.
type recorder struct {
	sluice.Store
	mu       sync.Mutex
	returned []string
}

func (r *recorder) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	r.mu.Lock()
	for _, q := range requests {
		if q.Previous.Seq != 0 {
			r.returned = append(r.returned, fmt.Sprint(time.Now().Format(time.StampMilli), q.Key, q.Previous, q.Spent))
		}
	}
	r.mu.Unlock()
	return r.Store.Hold(ctx, requests, grants)
}

func TestANodeWithItsOwnNumberRepeatsItself(t *testing.T) {
	run := func() (returned []string) {
		synctest.Test(t, func(t *testing.T) {
			store, err := memory.Open(memory.Config{Log: quiet})
			if err != nil {
				t.Fatal(err)
			}
			r := &recorder{Store: store}
			start := time.Now()
			s, err := advance.New(r, advance.Config{Log: quiet, Node: 7, Clock: func() (time.Time, time.Duration) {
				return time.Now(), time.Since(start)
			}})
			if err != nil {
				t.Fatal(err)
			}
			l := sluice.New(s)
			for i := range 2_000 { // several of them in one shard
				if _, err := l.Take(t.Context(), demand(fmt.Sprint(i), "100/h")); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(7100 * time.Millisecond) // until they are idle, and not as they are looked at
			for i := range 100 {
				l.Take(t.Context(), demand(fmt.Sprint(i), "100/h"))
			}
			s.Close()
			returned = r.returned
		})
		return returned
	}
	first := run()
	if len(first) != 2_100 {
		t.Fatalf("%d holds were returned, want 2100", len(first))
	}
	if second := run(); !slices.Equal(first, second) {
		t.Error("two runs returned other holds, or in another order")
	}
}
