package backoff_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-go/sluice/internal/backoff"
)

func TestPausesDoubleUpToMax(t *testing.T) {
	for _, test := range []struct {
		p        backoff.Pauses
		attempts int
		want     time.Duration
	}{
		{backoff.Pauses{First: 2, Max: 20}, 0, 2},
		{backoff.Pauses{First: 2, Max: 20}, 1, 2},
		{backoff.Pauses{First: 2, Max: 20}, 2, 4},
		{backoff.Pauses{First: 2, Max: 20}, 4, 16},
		{backoff.Pauses{First: 2, Max: 20}, 5, 20},
		{backoff.Pauses{First: 2, Max: 20}, math.MaxInt, 20},
		{backoff.Pauses{First: 30, Max: 20}, 1, 20},
		{backoff.Pauses{First: 3, Max: math.MaxInt64}, 1000, math.MaxInt64},
	} {
		if got := test.p.After(test.attempts); got != test.want {
			t.Errorf("%v after %d attempts: %d, want %d", test.p, test.attempts, got, test.want)
		}
	}
}

func TestJitterIsHalfToAll(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 2, 7, time.Second, math.MaxInt64} {
		for range 1000 {
			if got := backoff.Jitter(d); got < d/2 || got > d {
				t.Fatalf("%d of %d", got, d)
			}
		}
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := backoff.Pauses{First: time.Second, Max: time.Hour}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		begun := time.Now()
		if !p.Wait(ctx, 3) {
			t.Error("ended early")
		}
		if d := time.Since(begun); d < 2*time.Second || d > 4*time.Second {
			t.Errorf("waited for %s", d)
		}
		if p.Wait(ctx, 10) {
			t.Error("did not end with ctx")
		}
		if d := time.Since(begun); d != 10*time.Second {
			t.Errorf("ended after %s", d)
		}
		if backoff.Sleep(ctx, 0) {
			t.Error("nothing is left of ctx")
		}
	})
}
