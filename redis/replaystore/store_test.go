package replaystore_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-go/sluice/idempotency"
	"github.com/sluice-go/sluice/idempotency/idempotencytest"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/redis/replaystore"
)

func open(tb testing.TB, config redis.Config) *replaystore.Store {
	tb.Helper()
	config.Log, config.Timeout = slog.New(slog.DiscardHandler), 5*time.Second
	r, err := replaystore.Open(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

func TestReplaysConformance(t *testing.T) {
	server := redistest.Start(t)
	idempotencytest.Config{Expires: true}.Run(t, func(tb testing.TB, now func() time.Time) idempotency.Store {
		server.Must("FLUSHALL")
		return open(tb, redis.Config{Address: server.URL(), Clock: now})
	})
}

// Each record is a slot of its own, and figures are others again.
func TestReplaysOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	idempotencytest.Config{Expires: true}.Run(t, func(tb testing.TB, now func() time.Time) idempotency.Store {
		for _, node := range cluster.Primaries() {
			node.Must("FLUSHALL")
		}
		return open(tb, redis.Config{Address: cluster.URL(), Clock: now})
	})
}

// A record and everything about it goes by itself, and so do the figures of
// tenants that are heard of no more.
func TestReplaysExpire(t *testing.T) {
	server := redistest.Start(t)
	r := open(t, redis.Config{Address: server.URL()})
	c := &idempotency.Claim{
		Scope: idempotency.Scope{Tenant: "acme", Method: "POST", Route: "/orders", Key: "k"},
		Token: idempotency.NewToken(), Life: time.Second, TTL: time.Second,
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
	for key, ttl := range map[string]int{
		"sluice:1:replay:stats:acme":  2592000,
		"sluice:1:replay:recent:acme": 2592000,
		"sluice:1:replay:stats":       -1,
	} {
		got, err := strconv.Atoi(server.Must("TTL", key))
		if err != nil || got > ttl || got < min(ttl, 2592000-3600) { // some of it is over
			t.Errorf("%s lives for %d s, want %d; %v", key, got, ttl, err)
		}
	}
	id := c.Scope.ID()
	record := fmt.Sprintf("sluice:1:replay:{%x:%02x}%s", id.Namespace(), id[len(id)-1]%64, id)
	if got := server.Must("EXISTS", record); got != "1" {
		t.Fatalf("there is no %s", record)
	}
	redistest.Eventually(t, time.Minute, "the record goes", func() bool { return server.Must("EXISTS", record) == "0" })
}

// Forgetting finds what it is about without a look at others' keys, and leaves
// none of its own.
func TestReplaysForgetAllLeavesNoKeys(t *testing.T) {
	server := redistest.Start(t)
	r := open(t, redis.Config{Address: server.URL()})
	for i := range 200 {
		tenant := fmt.Sprint("acme/", i%5)
		c := &idempotency.Claim{
			Scope: idempotency.Scope{Tenant: tenant, Method: "POST", Route: "/orders", Key: fmt.Sprint(i)},
			Token: idempotency.NewToken(), Life: time.Second, TTL: time.Hour,
		}
		if _, err := r.Claim(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		err := r.Note(t.Context(), &idempotency.Activity{
			Counts:  []idempotency.Count{{Tenant: tenant, Name: "replays", N: 1}},
			Replays: []idempotency.Replayed{{ID: c.Scope.ID(), Tenant: tenant, N: 1, At: time.Now()}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := r.ForgetAll(t.Context(), idempotency.Whose{Tenant: "acme/3"}, 1000); n != 40 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
	if keys := server.Must("KEYS", "*acme/3*"); keys != "" {
		t.Errorf("left of a tenant: %s", keys)
	}
	if n, err := r.ForgetAll(t.Context(), idempotency.Whose{Tenant: "acme", Below: true}, 1000); n != 160 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
	if keys := server.Must("KEYS", "*"); keys != "" {
		t.Errorf("left of a namespace: %s", keys)
	}
	if stats := server.Must("INFO", "commandstats"); strings.Contains(stats, "cmdstat_scan") {
		t.Error("all keys were looked at")
	}
}

// The lists of a namespace's records shrink as the records expire, and go with
// the last one.
func TestReplaysListsAreBounded(t *testing.T) {
	server := redistest.Start(t)
	now := time.Now()
	r := open(t, redis.Config{Address: server.URL(), Clock: func() time.Time { return now }})
	claims := func(n int) {
		for range n {
			c := &idempotency.Claim{
				Scope: idempotency.Scope{Tenant: "acme/alice", Method: "POST", Route: "/orders", Key: idempotency.NewToken().String()},
				Token: idempotency.NewToken(), Life: time.Second, TTL: time.Hour,
			}
			if _, err := r.Claim(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	listed := func() (n int) {
		for _, key := range strings.Fields(server.Must("KEYS", "sluice:1:replay:ids:*")) {
			var size, other int
			fmt.Sscan(server.Must("ZCARD", key), &size)                                          //nolint:errcheck // it is a number
			fmt.Sscan(server.Must("ZCARD", strings.Replace(key, ":ids:", ":ends:", 1)), &other)  //nolint:errcheck // it is a number
			if ttl := server.Must("TTL", key); len(ttl) != 5 || ttl < "10790" || size != other { // three hours
				t.Errorf("%s lives for %s s and has %d ids, the other %d", key, ttl, size, other)
			}
			n += size
		}
		return n
	}
	claims(1000)
	if n := listed(); n != 1000 {
		t.Errorf("%d of 1000 records are listed", n)
	}
	// One that is kept for longer than its claim said stays in them.
	long := &idempotency.Claim{
		Scope: idempotency.Scope{Tenant: "acme/bob", Method: "POST", Route: "/orders", Key: "long"},
		Token: idempotency.NewToken(), Life: time.Second, TTL: time.Hour,
	}
	if _, err := r.Claim(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	err := r.Finish(t.Context(), &idempotency.Finish{ID: long.Scope.ID(), Token: long.Token, State: idempotency.Done, Result: []byte("x"), TTL: 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(2*time.Hour + time.Second)
	claims(500) // each takes some of those away that have expired
	if n := listed(); n < 501 || n > 700 {
		t.Errorf("%d records are listed where 501 are alive", n)
	}
	if n, err := r.ForgetAll(t.Context(), idempotency.Whose{Tenant: "acme/bob"}, 10); n != 1 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
}
