package redis_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/redis"
	"github.com/sluice-go/sluice/redis/redistest"
)

// TestCombinedTakesOfAllKinds sends takes that the script decides in straight
// lines together with others that it cannot: of buckets with holds, windows,
// several keys and changed limits. Each must get its own answer.
func TestCombinedTakesOfAllKinds(t *testing.T) {
	server := redistest.Start(t)
	s := open(t, redis.Config{Address: server.URL()})
	l := sluice.New(s)
	ctx := context.Background()
	demand := func(entity, limit string) sluice.Demand {
		return sluice.Demand{Key: sluice.Key{Entity: entity, Limit: "l"}, Limit: sluice.MustParse(limit)}
	}
	grants := make([]sluice.Grant, 1)
	held := demand("held", "1000/day")
	err := s.Hold(ctx, []sluice.HoldRequest{{
		Key: held.Key, Limit: held.Limit, ID: sluice.HoldID{Node: 1, Seq: 1}, Max: 10 * sluice.Token, TTL: time.Hour,
	}}, grants)
	if err != nil || grants[0].Amount != 10*sluice.Token {
		t.Fatalf("%+v, %v", grants[0], err)
	}
	takes := [][]sluice.Demand{
		{demand("plain", "1000/day")},
		{held},
		{demand("window", "1000/day sliding")},
		{demand("plain", "1000/day"), held},
		{demand("plain", "1000/day"), demand("other", "1000/day")},
		{demand("changing", "1000/day")},
		{demand("changing", "2000/day")},
	}
	const callers, rounds = 8, 20
	var wg sync.WaitGroup
	errs := make(chan error, callers*len(takes))
	for i, demands := range takes {
		for range callers {
			wg.Go(func() {
				for range rounds {
					d, err := l.Take(ctx, demands...)
					if err != nil || !d.Allowed || len(d.Results) != len(demands) {
						errs <- fmt.Errorf("take %d: %+v, %w", i, d, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	const n = callers * rounds
	for entity, want := range map[string]int{"plain": 3 * n, "held": 2*n + 10, "other": n} {
		d, err := l.Peek(ctx, demand(entity, "1000/day"))
		if err != nil {
			t.Fatal(err)
		}
		// A day brings a thousand back, so a second about 0.012.
		used := 1000*sluice.Token - d.Results[0].Remaining
		if used > sluice.Tokens(want)*sluice.Token || used < sluice.Tokens(want)*sluice.Token-5000 {
			t.Errorf("%s: %s used, want about %d", entity, used, want)
		}
	}
}
