package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// Two nodes with nothing in common but Redis: what one is told, both heed.
func TestWhatOneNodeLearnsTheOtherHeeds(t *testing.T) {
	server := redistest.Start(t)
	node := func(up http.RoundTripper) http.RoundTripper {
		store, err := limitstore.Open(t.Context(), redis.Config{Address: server.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return transport(t, sluice.New(store), "100/s", up)
	}
	var refuse atomic.Bool
	up := inMemory(func(*http.Request) *http.Response {
		if refuse.Swap(false) {
			return answer(429, "Retry-After", "600")
		}
		return answer(200)
	})
	one, two := node(up), node(up)
	if _, err := get(t, two, t.Context()); err != nil {
		t.Fatal(err)
	}
	refuse.Store(true)
	if r, err := get(t, one, t.Context()); err != nil || r.StatusCode != 429 {
		t.Fatal(r, err)
	}
	redistest.Eventually(t, time.Minute, "the other node looks again, and will not be in time", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_, err := get(t, two, ctx)
		var refused *sluice.RefusedError
		return errors.As(err, &refused)
	})
}
