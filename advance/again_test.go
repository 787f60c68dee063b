package advance_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/advance"
	"github.com/sluice-go/sluice/memory"
)

// faint is a store that does what it is told, or does not, and whose answers
// about holds are lost while it has an error.
type faint struct {
	sluice.Store
	err   atomic.Pointer[error]
	hears bool
}

func (f *faint) Hold(ctx context.Context, requests []sluice.HoldRequest, grants []sluice.Grant) error {
	err := f.err.Load()
	if err == nil || f.hears {
		if err := f.Store.Hold(ctx, requests, grants); err != nil {
			return err
		}
	}
	if err != nil {
		clear(grants)
		return *err
	}
	return nil
}

func (f *faint) Return(ctx context.Context, returns []sluice.HoldReturn) error {
	err := f.err.Load()
	if err == nil || f.hears {
		if err := f.Store.Return(ctx, returns); err != nil {
			return err
		}
	}
	if err != nil {
		return *err
	}
	return nil
}

// TestReturnsAreSentAgain: what a node holds when the store goes away is not used
// up if the store is back while the holds live, whether it heard the first return
// or not.
func TestReturnsAreSentAgain(t *testing.T) {
	for _, c := range []struct {
		name       string
		err        error
		hears      bool
		from, back time.Duration // since the take
	}{
		{"away when it would be returned", sluice.ErrUnavailable, false, 4 * time.Second, 8 * time.Second},
		{"heard, but not confirmed", sluice.ErrUnknown, true, 4 * time.Second, 8 * time.Second},
		{"away when it is asked for", sluice.ErrUnavailable, false, 0, 3 * time.Second},
		{"granted, but not confirmed", sluice.ErrUnknown, true, 0, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := memory.Open(memory.Config{Log: quiet})
				if err != nil {
					t.Fatal(err)
				}
				inner := &faint{Store: store, hears: c.hears}
				node, err := advance.New(inner, advance.Config{Log: quiet})
				if err != nil {
					t.Fatal(err)
				}
				defer node.Close()
				if c.from == 0 {
					inner.err.Store(&c.err)
				}
				d := demand("a", "1000/day fixed")
				take(t, sluice.New(node), d)
				time.Sleep(c.from)
				inner.err.Store(&c.err)
				time.Sleep(c.back - c.from)
				inner.err.Store(nil)
				time.Sleep(time.Minute)
				left, err := sluice.New(store).Peek(t.Context(), d)
				if err != nil || left.Results[0].Remaining.Whole() != 999 {
					t.Errorf("%s remain, want 999: %v", left.Results[0].Remaining, err)
				}
			})
		})
	}
}
