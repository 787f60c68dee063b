package httplimit_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

// Two nodes with nothing in common but Redis: what one is told, both heed.
func TestWhatOneNodeLearnsTheOtherHeeds(t *testing.T) {
	server := redistest.Start(t)
	node := func(up http.RoundTripper) http.RoundTripper {
		store, err := redis.Open(t.Context(), redis.Config{Address: server.URL()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return transport(t, sluice.New(store), "100/s", up)
	}
	var refuse atomic.Bool
	up := inMemory(func(*http.Request) *http.Response {
		if refuse.Swap(false) {
			return answer(429, "Retry-After", "2")
		}
		return answer(200)
	})
	one, two := node(up), node(up)
	if _, err := get(t, two, t.Context()); err != nil {
		t.Fatal(err)
	}
	refuse.Store(true)
	start := time.Now()
	if r, err := get(t, one, t.Context()); err != nil || r.StatusCode != 429 {
		t.Fatal(r, err)
	}
	for range 100 { // until the other node looks again, and then waits
		if _, err := get(t, two, t.Context()); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) > time.Second {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	if took := time.Since(start); took < 1900*time.Millisecond {
		t.Errorf("the other node went on after %s, want 2 s at least", took)
	}
}
