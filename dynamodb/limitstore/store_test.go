package limitstore_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/dynamodb/dynamodbtest"
	"github.com/sluice-go/sluice/dynamodb/limitstore"
	"github.com/sluice-go/sluice/storetest"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func open(tb testing.TB, config dynamodb.Config) *limitstore.Store {
	tb.Helper()
	if config.Log == nil {
		config.Log = quiet
	}
	if config.Timeout == 0 {
		config.Timeout = 20 * time.Second // the machine may be busy
	}
	s, err := limitstore.Open(context.Background(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	server := dynamodbtest.Start(t)
	storetest.Config{Steps: 3000}.Run(t, func(tb testing.TB, now func() time.Time) sluice.Store {
		return open(tb, dynamodb.Config{Address: server.Table(), Clock: now})
	})
}
