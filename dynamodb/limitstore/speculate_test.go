package limitstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/dynamodb/dynamodbtest"
)

// TestAnIdleBucketIsNotSpentTwice is the trap of a write that takes without moving the
// time of the last refill: what was taken from a bucket that had been full for long
// would be repaid at once.
func TestAnIdleBucketIsNotSpentTwice(t *testing.T) {
	server := dynamodbtest.Start(t)
	now := time.Date(2026, time.March, 11, 10, 20, 30, 0, time.UTC)
	config := dynamodb.Config{Address: server.Table(), Clock: func() time.Time { return now }}
	nodes := []*sluice.Limiter{sluice.New(open(t, config)), sluice.New(open(t, config))}
	n := 0
	take := func(tokens int64) sluice.Decision {
		t.Helper()
		n++ // one node knows what the item was like, the other does not
		d, err := nodes[n%len(nodes)].Take(context.Background(), demand("a", "10/s burst 20", tokens))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for _, idle := range []time.Duration{0, 900 * time.Millisecond, time.Second, 2 * time.Second, 3 * time.Second, time.Hour, 1000 * time.Hour} {
		now = now.Add(time.Hour) // it is full
		take(5)
		take(5)
		now = now.Add(idle)
		room := min(20, 10+int64(idle/(100*time.Millisecond)))
		for passed := int64(0); ; passed++ {
			d := take(1)
			if left := sluice.Tokens(max(room-passed-1, 0)); d.Results[0].Remaining != left {
				t.Errorf("idle for %s: after %d: %s left, want %s", idle, passed, d.Results[0].Remaining, left)
			}
			if !d.Allowed {
				if passed != room {
					t.Errorf("idle for %s: %d passed, want %d", idle, passed, room)
				}
				break
			}
		}
	}
}

// TestRequestsPerTake counts what takes cost.
func TestRequestsPerTake(t *testing.T) {
	server := dynamodbtest.Start(t)
	now := time.Date(2026, time.March, 11, 10, 20, 30, 0, time.UTC)
	s := open(t, dynamodb.Config{Address: server.Table(), Clock: func() time.Time { return now }})
	l := sluice.New(s)
	take := func(demands ...sluice.Demand) bool {
		t.Helper()
		d, err := l.Take(context.Background(), demands...)
		if err != nil {
			t.Fatal(err)
		}
		return d.Allowed
	}
	count := func(what string, most float64, n int, do func(i int)) {
		t.Helper()
		before := s.Stats().Requests
		for i := range n {
			do(i)
		}
		each := float64(s.Stats().Requests-before) / float64(n)
		t.Logf("%s: %.3f requests each", what, each)
		if each > most {
			t.Errorf("%s: %.3f requests each, want at most %.3f", what, each, most)
		}
	}
	steady := func(limits ...string) func(int) {
		random := rand.New(rand.NewPCG(1, 2))
		return func(int) {
			var demands []sluice.Demand
			for i, limit := range limits {
				dm := demand(fmt.Sprint("steady", len(limits)), limit, 1)
				dm.Key.Limit = fmt.Sprint("l", i)
				demands = append(demands, dm)
			}
			if !take(demands...) {
				t.Fatal("refused")
			}
			now = now.Add(time.Duration(random.Int64N(int64(22 * time.Millisecond)))) // some 90 a second
		}
	}
	count("steady use of one limit", 1.1, 2000, steady("100/s burst 100"))
	count("steady use of three limits", 1.1, 500, steady("100/s burst 100", "10000/minute", "1000000/hour"))
	count("full again", 2, 50, func(int) {
		take(demand("full", "10/s", 1))
		now = now.Add(time.Hour)
	})
	for take(demand("empty", "10/hour", 1)) {
	}
	count("refused", 1.1, 50, func(int) { take(demand("empty", "10/hour", 1)) })
}
