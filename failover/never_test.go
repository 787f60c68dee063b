package failover_test

import (
	"context"
	"testing"

	"github.com/sluice-go/sluice"
	"github.com/sluice-go/sluice/failover"
	"github.com/sluice-go/sluice/memory"
)

// absent is a store that cannot be reached.
type absent struct{ sluice.Store }

func (absent) Take(context.Context, *sluice.Take, *sluice.Decision) error {
	return sluice.ErrUnavailable
}

// TestNeverWithoutTheStore: that a cost is above the limit's capacity is known
// while the store is away, too.
func TestNeverWithoutTheStore(t *testing.T) {
	inner, err := memory.Open(memory.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := failover.New(absent{inner}, failover.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := sluice.New(s)
	for _, on := range []sluice.OnUnavailable{sluice.Degrade, sluice.Deny} {
		for cost, never := range map[int64]bool{1000: false, 1001: true} {
			d, err := l.Take(t.Context(), sluice.Demand{Key: sluice.Key{Entity: "a"}, Limit: sluice.MustParse("1000/hour"), Cost: sluice.Thousandths(cost * sluice.Token), OnUnavailable: on})
			if err != nil || d.Allowed || (d.RetryAfter == sluice.Never) != never {
				t.Errorf("%s, cost %d: retry in %s, %v", on, sluice.Thousandths(cost), d.RetryAfter, err)
			}
		}
	}
}
