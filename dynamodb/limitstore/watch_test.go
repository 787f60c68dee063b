package limitstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/dynamodb"
	"github.com/sluice-go/sluice/dynamodb/dynamodbtest"
)

// TestOthersHearOfRoom has one node refund what a caller of another waits for.
func TestOthersHearOfRoom(t *testing.T) {
	server := dynamodbtest.Start(t)
	config := dynamodb.Config{Address: server.Table()}
	here, there := open(t, config), open(t, config)
	heard := make(chan sluice.Key, 100)
	here.Watch(func(k sluice.Key) { heard <- k })
	hears := func(want sluice.Key) {
		t.Helper()
		for {
			select {
			case k := <-heard:
				if k == want {
					return
				}
			case <-time.After(time.Minute):
				t.Fatalf("nothing was heard of %s", want)
			}
		}
	}
	hears(sluice.AnyKey)

	ctx := context.Background()
	all := demand("a", "10/hour", 10)
	l := sluice.New(there)
	if d, err := l.Take(ctx, all); err != nil || !d.Allowed {
		t.Fatal(d.Allowed, err)
	}
	var d sluice.Decision
	waiting := sluice.Take{Demands: []sluice.Demand{demand("a", "10/hour", 1)}, Ticket: sluice.Ticket{ID: sluice.HoldID{Node: 1, Seq: 1}}}
	if err := here.Take(ctx, &waiting, &d); err != nil || d.Allowed {
		t.Fatal(d.Allowed, err)
	}
	refund := all
	refund.Cost = sluice.Tokens(-1)
	if _, err := l.Adjust(ctx, refund); err != nil {
		t.Fatal(err)
	}
	hears(all.Key)
}
