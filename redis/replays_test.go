package redis_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/idempotency/idempotencytest"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

func openReplays(tb testing.TB, config redis.Config) *redis.Replays {
	tb.Helper()
	config.Log, config.Timeout = quiet, 5*time.Second
	r, err := redis.OpenReplays(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

func TestReplaysConformance(t *testing.T) {
	server := redistest.Start(t)
	idempotencytest.Options{Expires: true}.Run(t, func(tb testing.TB, now func() time.Time) idempotency.Store {
		server.Must("FLUSHALL")
		return openReplays(tb, redis.Config{Address: server.URL(), Now: now})
	})
}

// Each record is a slot of its own, and figures are others again.
func TestReplaysOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	idempotencytest.Options{Expires: true}.Run(t, func(tb testing.TB, now func() time.Time) idempotency.Store {
		for _, node := range cluster.Primaries() {
			node.Must("FLUSHALL")
		}
		return openReplays(tb, redis.Config{Address: cluster.URL(), Now: now})
	})
}

// A record and everything about it goes by itself, and so do the figures of
// tenants that are heard of no more.
func TestReplaysExpire(t *testing.T) {
	server := redistest.Start(t)
	r := openReplays(t, redis.Config{Address: server.URL()})
	c := &idempotency.Claim{
		Scope: idempotency.Scope{Tenant: "acme", Method: "POST", Route: "/orders", Key: "k"},
		Token: idempotency.NewToken(), Lease: time.Second, TTL: time.Second,
	}
	if _, err := r.Claim(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	err := r.Note(t.Context(), &idempotency.Activity{
		Counts:  []idempotency.Count{{Tenant: "acme", Name: "replays", N: 1}, {Everyone: true, Name: "replays", N: 1}},
		Replays: []idempotency.Replayed{{ID: c.Scope.ID(), Tenant: "acme", N: 1, At: time.Now()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for key, ttl := range map[string]string{
		"sluice:1:replay:stats:acme":  "2592000",
		"sluice:1:replay:recent:acme": "2592000",
		"sluice:1:replay:stats":       "-1",
	} {
		if got := server.Must("TTL", key); got != ttl {
			t.Errorf("%s lives for %s s, want %s", key, got, ttl)
		}
	}
	record := "sluice:1:replay:{" + c.Scope.ID().String() + "}"
	redistest.Eventually(t, 10*time.Second, "the record goes", func() bool { return server.Must("EXISTS", record) == "0" })
}
