package limitstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/internal/faultproxy"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestWatchMissesNothing cuts the connection that listens. Once a subscription
// stands, the first and every later one, everybody is woken for what was missed.
func TestWatchMissesNothing(t *testing.T) {
	server := redistest.Start(t)
	p := faultproxy.Start(t, server.Addr())
	there := sluice.New(open(t, redis.Config{Address: server.URL()}))
	want := watched(t, open(t, redis.Config{Address: "redis://" + p.Addr()}))
	for range 3 {
		want(sluice.AnyKey)
		back := demand("roomy", "100/h")
		if _, err := there.Take(context.Background(), back); err != nil {
			t.Fatal(err)
		}
		back.Cost = sluice.Thousandths(-sluice.Token)
		if _, err := there.Adjust(context.Background(), back); err != nil {
			t.Fatal(err)
		}
		want(back.Key)
		p.Cut()
	}
}

// watched returns a function that waits for the next wake-up, and checks what for.
func watched(t *testing.T, s *limitstore.Store) func(want sluice.Key) {
	woken := make(chan sluice.Key, 100)
	s.Watch(func(k sluice.Key) { woken <- k })
	return func(want sluice.Key) {
		t.Helper()
		select {
		case k := <-woken:
			if k != want {
				t.Fatalf("woke %v, want %v", k, want)
			}
		case <-time.After(patience):
			t.Fatalf("nobody was woken, want %v", want)
		}
	}
}
