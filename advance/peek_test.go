package advance_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/sluice-go/sluice"
)

// TestAPeekIsWhatTheNodeWouldAnswer: tokens in hand count for the node that has
// them and not for others, also where it takes them and what is free together.
func TestAPeekIsWhatTheNodeWouldAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, nodes := cluster(t, 2)
		one, two := sluice.New(nodes[0]), sluice.New(nodes[1])
		d := demand("a", "1000/day")
		take(t, one, d) // and holds some ahead of need
		held := buckets(t, store)[0].Held.Thousandths()
		if held < 10*sluice.Token {
			t.Fatalf("%s held", sluice.Thousandths(held))
		}
		rest := d
		for rest.Cost = sluice.Thousandths(buckets(t, store)[0].Remaining.Thousandths() - held); rest.Cost.Thousandths() > 0; rest.Cost = sluice.Thousandths(buckets(t, store)[0].Remaining.Thousandths() - held) {
			if got, err := sluice.New(store).Take(t.Context(), rest); err != nil || !got.Allowed {
				t.Fatal(got, err)
			}
		}
		peek := func(l *sluice.Limiter, tokens int64) bool {
			got, err := l.Peek(context.Background(), costing(d, tokens))
			if err != nil {
				t.Fatal(err)
			}
			return got.Allowed
		}
		if !peek(one, 1) || !peek(one, 10) || peek(one, 900) || peek(two, 1) {
			t.Errorf("a peek of 1, 10, 900 and of another node: %v %v %v %v", peek(one, 1), peek(one, 10), peek(one, 900), peek(two, 1))
		}
		if !take(t, one, d).Allowed || take(t, two, d).Allowed {
			t.Error("the takes are decided otherwise")
		}
	})
}
