package limitstore_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/limitstore"
	"github.com/sluice-go/sluice/redis/redistest"
	"github.com/sluice-go/sluice/storetest"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func open(tb testing.TB, config redis.Config) *limitstore.Store {
	tb.Helper()
	if config.Log == nil {
		config.Log = quiet
	}
	if config.Timeout == 0 {
		config.Timeout = 5 * time.Second // the machine may be busy
	}
	s, err := limitstore.Open(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	server := redistest.Start(t)
	for _, separate := range []bool{false, true} {
		t.Run(map[bool]string{false: "combined", true: "separate"}[separate], func(t *testing.T) {
			storetest.Config{Steps: 4000}.Run(t, func(tb testing.TB, now func() time.Time) sluice.Store {
				server.Must("FLUSHALL")
				return open(tb, redis.Config{Address: server.URL(), Clock: now, Separate: separate})
			})
		})
	}
}
