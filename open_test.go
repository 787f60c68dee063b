package sluice_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/memory"
)

// open is a limiter on a new store that is closed with the test.
func open(t testing.TB, options ...sluice.Option) *sluice.Limiter {
	t.Helper()
	return sluice.New(openStore(t), options...)
}

func openStore(t testing.TB) *memory.Store {
	t.Helper()
	store, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// demand is for n tokens of the bucket of that name.
func demand(name, limit string, n int) sluice.Demand {
	return sluice.Demand{
		Key:   sluice.Key{Entity: "ann", Resource: "api", Limit: name},
		Limit: sluice.MustParse(limit),
		Cost:  sluice.Tokens(int64(n)),
	}
}

// mustTake takes what has to be there.
func mustTake(t testing.TB, l *sluice.Limiter, demands ...sluice.Demand) sluice.Decision {
	t.Helper()
	d, err := l.Take(context.Background(), demands...)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Allowed {
		t.Fatal(d.Err())
	}
	return d
}

// remaining is what is left for a demand.
func remaining(t testing.TB, l *sluice.Limiter, d sluice.Demand) int64 {
	t.Helper()
	got, err := l.Peek(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	return got.Results[0].Remaining.Thousandths()
}

// since is the time that has passed, to the millisecond.
func since(start time.Time) time.Duration { return time.Since(start).Round(time.Millisecond) }
