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

// checkForget forgets one entity of several that have leases and request ids,
// alone and together, and then all of the namespace.
func checkForget(tb testing.TB, open Open) error {
	s := onStage(tb, open)
	of := func(namespace, entity string) sluice.Demand {
		return sluice.Demand{Key: sluice.Key{Namespace: namespace, Entity: entity, Resource: "r", Limit: "l"}, Limit: sluice.Per(10, time.Hour)}
	}
	a, b, other := of(s.namespace, "a|}{id:"), of(s.namespace, "b"), of(s.namespace+"-other", "a|}{id:")
	takes := []sluice.Take{
		{ID: s.id("a"), Lease: true, Demands: []sluice.Demand{a}},
		{ID: s.id("both"), Lease: true, Demands: []sluice.Demand{b, a}},
		{ID: s.id("request"), Demands: []sluice.Demand{a}},
		{ID: s.id("b"), Lease: true, Demands: []sluice.Demand{b}},
		{ID: s.id("other"), Lease: true, Demands: []sluice.Demand{other}},
	}
	known := func(want ...bool) error {
		for i := range takes {
			_, err := s.limiter.Settle(tb.Context(), sluice.Settlement{ID: takes[i].ID, Action: sluice.Adjust})
			if takes[i].Lease && (err == nil) != want[i] || err != nil && !errors.Is(err, sluice.ErrLeaseClosed) {
				return fmt.Errorf("lease %d: got error %w, want it known: %t", i, err, want[i])
			}
		}
		return nil
	}
	forget := func(f sluice.Forgetting) error {
		for f.Namespace = s.namespace; ; {
			var err error
			if f.Cursor, err = s.limiter.Forget(tb.Context(), f); f.Cursor == "" || err != nil {
				return err
			}
		}
	}
	for i := range takes {
		takes[i].Keep = time.Hour
		if _, err := s.decide(takes[i]); err != nil {
			return err
		}
	}
	if err := errors.Join(known(true, true, false, true, true), forget(sluice.Forgetting{Entities: []string{"c", "a|}{id:"}}),
		known(false, false, false, true, true), s.left(a, 7), s.left(b, 8)); err != nil {
		return err
	}
	again, err := s.decide(takes[2])
	return errors.Join(err, expect("repeated", again.Repeated, false), s.left(a, 6),
		forget(sluice.Forgetting{}), known(false, false, false, false, true))
}
