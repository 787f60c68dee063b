package abuse_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/httplimit/abuse"
	"github.com/sluice-go/sluice/memory"
	"github.com/sluice-go/sluice/policy"
)

// flaky is a store that may be away.
type flaky struct {
	*memory.Store
	away atomic.Bool
}

func (f *flaky) Take(ctx context.Context, t *sluice.Take, d *sluice.Decision) error {
	if f.away.Load() {
		return sluice.ErrUnavailable
	}
	return f.Store.Take(ctx, t, d)
}

func (f *flaky) List(ctx context.Context, q sluice.Query) (sluice.Page, error) {
	if f.away.Load() {
		return sluice.Page{}, sluice.ErrUnavailable
	}
	return f.Store.List(ctx, q)
}

// TestSanctionsHoldOnAllNodes bans on one node of two, and lifts on the other. A
// third, of another namespace, does not hear of it.
func TestSanctionsHoldOnAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, err := memory.Open(memory.Config{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer inner.Close()
		store := &flaky{Store: inner}
		var nodes [3]*abuse.Guard
		for i := range nodes {
			nodes[i], err = abuse.New(abuse.Config{Log: slog.New(slog.DiscardHandler), Store: store, Namespace: []string{"shop", "shop", "other"}[i]})
			if err != nil {
				t.Fatal(err)
			}
			defer nodes[i].Close()
		}
		rules := &policy.Abuse{Ban: &policy.Ban{Refusals: 3, Within: time.Minute, For: 10 * time.Minute}}
		ban := func(entity string) {
			for range 3 {
				nodes[0].Seen(rules, entity, true)
			}
		}
		want := func(entity string, banned ...bool) {
			t.Helper()
			for i, want := range banned {
				if left := nodes[i].Banned(entity); (left > 0) != want {
					t.Errorf("%s is banned on node %d for %s more, want %t", entity, i, left, want)
				}
			}
		}
		ban("noisy")
		want("noisy", true, false)
		time.Sleep(3 * time.Second)
		want("noisy", true, true, false)
		if list := nodes[1].List(); len(list) != 1 || list[0].Until.Sub(list[0].Since) != 10*time.Minute || list[0].Kind != abuse.Ban || list[0].Entity != "noisy" {
			t.Errorf("%+v", list)
		}
		time.Sleep(5 * time.Minute)
		if left := nodes[1].Banned("noisy"); left < 4*time.Minute || left > 5*time.Minute {
			t.Errorf("%s are left of 10 minutes after 5", left)
		}
		if lifted, err := nodes[1].Lift(t.Context(), "noisy", "admin"); err != nil || !lifted {
			t.Error(lifted, err)
		}
		want("noisy", true, false)
		time.Sleep(3 * time.Second)
		want("noisy", false, false)

		// Without the store a ban holds where it began, and everywhere once the
		// store is back.
		store.away.Store(true)
		ban("again")
		time.Sleep(time.Minute)
		want("again", true, false)
		store.away.Store(false)
		time.Sleep(5 * time.Second)
		want("again", true, true)
		time.Sleep(10 * time.Minute)
		want("again", false, false)
		if len(nodes[0].List())+len(nodes[1].List()) != 0 {
			t.Error("it does not end")
		}
	})
}
