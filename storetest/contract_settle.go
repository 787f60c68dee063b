package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluice-go/sluice"
)

// checkInvalidCosts settles a lease at costs that it cannot have: every store
// says so in the same words, and nothing happens.
func checkInvalidCosts(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	rate, places := s.demand("rate", "1/hour burst 10", 4), s.demand("places", "2 concurrent", 1)
	if _, err := s.decide(sluice.Take{ID: s.id("x"), Keep: time.Minute, Lease: true, Demands: []sluice.Demand{rate, places}}); err != nil {
		return err
	}
	for limit, reason := range map[string]string{
		"unheard of": "the lease has no limit of this name",
		"\\\x00\xff": "the lease has no limit of this name",
		"places":     "concurrency cannot be adjusted",
	} {
		_, err := s.limiter.Settle(tb.Context(), sluice.Settlement{ID: s.id("x"), Costs: []sluice.LimitCost{
			{Limit: "rate", Cost: sluice.Tokens(1)}, {Limit: limit, Cost: sluice.Tokens(2)},
		}})
		want := sluice.FieldError{Field: "lease.costs", Value: limit, Reason: reason}
		var got *sluice.FieldError
		if !errors.As(err, &got) || *got != want {
			return fmt.Errorf("a cost in %q: got error %#v, want %#v", limit, err, &want)
		}
	}
	return errors.Join(s.left(rate, 6), s.left(places, 1))
}
